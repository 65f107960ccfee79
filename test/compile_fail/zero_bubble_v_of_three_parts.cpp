// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<Schedule, Count, ...>: the parts of the model go down the devices and back
#include <tandem/strategy/types/pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<ZeroBubbleV, 4, Split<2>, Split<2>, Split<2>>;
#else
using S = Pipeline<ZeroBubbleV, 4, Split<2>, Split<2>, Split<2>, Split<3>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
