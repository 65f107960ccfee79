// SPDX-License-Identifier: Apache-2.0
// expect-error: Hybrid<DataParallel<D, ShardedState>, SpatialParallel<H, W>>: a device sums
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<2, ShardedState>, SpatialParallel<2, 1>>;
#else
using S = Hybrid<DataParallel<2>, SpatialParallel<2, 1>>;
#endif

int main() { return S::ranks == 4 ? 0 : 1; }
