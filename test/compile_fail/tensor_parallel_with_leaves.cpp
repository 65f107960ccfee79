// SPDX-License-Identifier: Apache-2.0
// expect-error: TensorParallel<N, Reproducible<>>: a layer's sum over its inputs is cut in N
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = TensorParallel<2, Reproducible<>>;
#else
using S = TensorParallel<2, Microbatches<2>, Checkpoint<Every<1>>>;
#endif

int main() { return S::batching.microbatches == 2 ? 0 : 1; }
