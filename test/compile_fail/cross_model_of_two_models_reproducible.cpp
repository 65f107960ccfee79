// SPDX-License-Identifier: Apache-2.0
// expect-error: CrossModelParallel<Rule, ..., Reproducible<>>: this rule keeps two
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = CrossModelParallel<AverageWeights<>, Auto<2>, Reproducible<>>;
#else
using S = CrossModelParallel<AverageGradients, Auto<2>, Reproducible<>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
