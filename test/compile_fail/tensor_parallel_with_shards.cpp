// SPDX-License-Identifier: Apache-2.0
// expect-error: TensorParallel<N, Options...>: options are Microbatches, Reproducible
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = TensorParallel<2, ShardedState>;
#else
using S = TensorParallel<2, Microbatches<2> >;
#endif

int main() { return S::batching.microbatches == 2 ? 0 : 1; }
