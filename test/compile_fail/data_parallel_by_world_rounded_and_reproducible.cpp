// SPDX-License-Identifier: Apache-2.0
// expect-error: DataParallel<N, Wire<E>, Reproducible<>>: rounding on the way changes the bits
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = DataParallel<by_world, Wire<BFloat16>, Reproducible<4>>;
#else
using S = DataParallel<by_world, Reproducible<4>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches == 4 ? 0 : 1; }
