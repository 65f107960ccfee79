// SPDX-License-Identifier: Apache-2.0
// expect-error: CrossModelParallel trains two models; list strategies
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Plan = Elastic<CrossModelParallel<AverageWeights<2>, Split<2>, Split<2>>,
                     SingleDevice<Microbatches<2>>>;
#else
using Plan = Elastic<CrossModelParallel<AverageGradients, Split<2>, Split<2>>,
                     SingleDevice<Microbatches<2>>>;
#endif

int main() { return Plan::count > 0 ? 0 : 1; }
