// SPDX-License-Identifier: Apache-2.0
// expect-error: Reproducible<Leaves>: give 0 (one a microbatch) or more
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = SingleDevice<Reproducible<-1>>;
#else
using S = SingleDevice<Reproducible<0>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
