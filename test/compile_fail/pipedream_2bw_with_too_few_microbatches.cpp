// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<PipeDream2BW, Count, ...>: Count must be the parts of the model
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/asynchronous_pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<PipeDream2BW, 2, Auto<3>>;
#else
using S = Pipeline<PipeDream2BW, 3, Auto<3>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
