// SPDX-License-Identifier: Apache-2.0
// expect-error: SingleDevice<Microbatches<n>, Weighted<...>>: n must be a multiple of the number of
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = SingleDevice<Microbatches<4>, Weighted<1, 2, 3>>;
#else
using S = SingleDevice<Microbatches<6>, Weighted<1, 2, 3>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
