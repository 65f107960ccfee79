// SPDX-License-Identifier: Apache-2.0
// expect-error: SpatialParallel<H, W, Options...>: options are Microbatches and Checkpoint
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = SpatialParallel<1, 2, Slices<2>>;
#else
using S = SpatialParallel<1, 2, Microbatches<2>>;
#endif

int main() { return S::ranks == 2 ? 0 : 1; }
