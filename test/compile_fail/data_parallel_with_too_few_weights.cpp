// SPDX-License-Identifier: Apache-2.0
// expect-error: DataParallel<N, Weighted<...>>: give N weights, one a device
#include <tandem/strategy/types/data_parallel.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = DataParallel<3, Weighted<1, 2>>;
#else
using S = DataParallel<3, Weighted<1, 2, 3>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
