// SPDX-License-Identifier: Apache-2.0
// expect-error: Reproducible<Leaves>: the leaves of one copy of the model
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = CrossPipeline<4, AverageGradients, Auto<2>, Reproducible<1>>;
#else
using S = CrossPipeline<4, AverageGradients, Auto<2>, Reproducible<2>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
