// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<DualPipe, Count, ...>: the parts of the model and Count must be even
#include <tandem/strategy/types/pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<DualPipe, 4, Split<2>, Split<2>, Split<2>, Split<2>>;
#else
using S = Pipeline<DualPipe, 8, Split<2>, Split<2>, Split<2>, Split<2>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
