// SPDX-License-Identifier: Apache-2.0
// expect-error: Hybrid<DataParallel<N>, Pipeline<asynchronous schedule, ...>>: replicas
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/asynchronous_pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<2>, Pipeline<PipeDream, 1, Auto<2>>>;
#else
using S = Hybrid<DataParallel<2>, Pipeline<OneFOneB, 1, Auto<2>>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
