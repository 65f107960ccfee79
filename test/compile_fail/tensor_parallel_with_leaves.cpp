// SPDX-License-Identifier: Apache-2.0
// expect-error: Reproducible<Leaves>: the leaves of one copy of the model
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = TensorParallel<2, Microbatches<2>, Reproducible<4>>;
#else
using S = TensorParallel<2, Microbatches<2>, Reproducible<2>, Checkpoint<Every<1>>>;
#endif

int main() { return S::batching.leaves == 2 ? 0 : 1; }
