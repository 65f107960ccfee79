// SPDX-License-Identifier: Apache-2.0
// expect-error: Checkpoint<What>: What is Every<k>, for runs of k top-level layers, or Boundaries
#include <tandem/strategy/types/model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = ModelParallel<Split<4>, Checkpoint<int>>;
#else
using S = ModelParallel<Split<4>, Checkpoint<Every<2>>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
