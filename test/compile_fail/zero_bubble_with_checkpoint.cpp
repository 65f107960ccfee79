// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<Schedule with I and W, Count, ..., Checkpoint<...>>: its weight gradients
// need
#include <tandem/strategy/types/pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<ZeroBubbleH1, 4, Split<2>, Split<2>, Checkpoint<Boundaries>>;
#else
using S = Pipeline<OneFOneB, 4, Split<2>, Split<2>, Checkpoint<Boundaries>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
