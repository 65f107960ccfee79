// SPDX-License-Identifier: Apache-2.0
// expect-error: CrossModelParallel<Rule, How, Options...>: say first how the two models
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = CrossModelParallel<Split<1>, Split<1>>;
#else
using S = CrossModelParallel<AverageGradients, Split<1>, Split<1>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
