// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<DualPipeV, Count, ...>: Count must be the parts of the model or more
#include <tandem/strategy/types/pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<DualPipeV, 3, Split<2>, Split<2>, Split<2>, Split<2>>;
#else
using S = Pipeline<DualPipeV, 4, Split<2>, Split<2>, Split<2>, Split<2>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
