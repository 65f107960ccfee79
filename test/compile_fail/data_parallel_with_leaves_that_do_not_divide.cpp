// SPDX-License-Identifier: Apache-2.0
// expect-error: Reproducible<Leaves>: the leaves of one replica (Leaves / N) must be a power of two
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = DataParallel<2, Microbatches<4>, Reproducible<5>>;
#else
using S = DataParallel<2, Microbatches<4>, Reproducible<4>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
