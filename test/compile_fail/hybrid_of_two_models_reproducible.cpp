// SPDX-License-Identifier: Apache-2.0
// expect-error: Hybrid<DataParallel<N, Reproducible<>>, CrossModelParallel<Rule, ...>>:
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<2, Reproducible<>>, CrossModelParallel<AverageWeights<>, Auto<2>>>;
#else
using S = Hybrid<DataParallel<2, Reproducible<>>, CrossModelParallel<AverageGradients, Auto<2>>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
