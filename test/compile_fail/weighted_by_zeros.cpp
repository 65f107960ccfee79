// SPDX-License-Identifier: Apache-2.0
// expect-error: Weighted<Weights...>: give 1 to 64 numbers of 0 or more, not all 0
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = DataParallel<2, Weighted<0, 0>>;
#else
using S = DataParallel<2, Weighted<0, 1>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
