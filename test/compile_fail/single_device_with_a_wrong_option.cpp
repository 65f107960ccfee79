// SPDX-License-Identifier: Apache-2.0
// expect-error: SingleDevice<Options...>: options are Microbatches, Weighted, Reproducible,
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = SingleDevice<int>;
#else
using S = SingleDevice<Microbatches<2> >;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
