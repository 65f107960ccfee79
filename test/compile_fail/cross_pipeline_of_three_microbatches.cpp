// SPDX-License-Identifier: Apache-2.0
// expect-error: CrossPipeline<Count, Rule, ...>: Count is the number of microbatches of both
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = CrossPipeline<3, AverageWeights<>, Auto<2>>;
#else
using S = CrossPipeline<4, AverageWeights<>, Auto<2>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
