// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<Schedule, 1, ..., Checkpoint<...>>: FeaturesReplay and
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/asynchronous_pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<FeaturesReplay, 1, Auto<2>, Checkpoint<Every<1>>>;
#else
using S = Pipeline<FeaturesReplay, 1, Auto<2>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
