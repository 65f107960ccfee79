// SPDX-License-Identifier: Apache-2.0
// expect-error: Reproducible<Leaves>: the leaves must be a power of two that divides the
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = SingleDevice<Microbatches<6>, Reproducible<3>>;
#else
using S = SingleDevice<Microbatches<6>, Reproducible<2>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
