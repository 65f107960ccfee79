// SPDX-License-Identifier: Apache-2.0
// expect-error: Microbatches<Count>: give a positive number
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = SingleDevice<Microbatches<0>>;
#else
using S = SingleDevice<Microbatches<1>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
