// SPDX-License-Identifier: Apache-2.0
// expect-error: Reproducible<Leaves>: the leaves of one copy of the model
#include <tandem/strategy/types/model_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = ModelParallel<Split<4>, Split<5>, Microbatches<6>, Reproducible<>>;
#else
using S = ModelParallel<Split<4>, Split<5>, Microbatches<6>, Reproducible<2>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
