// SPDX-License-Identifier: Apache-2.0
// expect-error: DataParallel<N, Options...>: options are Microbatches, Weighted, Reproducible,
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<2, Checkpoint<Boundaries>>, ModelParallel<Split<2>>>;
#else
using S = Hybrid<DataParallel<2>, ModelParallel<Split<2>, Checkpoint<Boundaries>>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
