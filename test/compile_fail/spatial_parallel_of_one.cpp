// SPDX-License-Identifier: Apache-2.0
// expect-error: SpatialParallel<H, W>: rows and columns of tiles, one of them for each device
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = SpatialParallel<1, 1>;
#else
using S = SpatialParallel<1, 2>;
#endif

int main() { return S::ranks == 2 ? 0 : 1; }
