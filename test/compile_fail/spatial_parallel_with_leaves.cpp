// SPDX-License-Identifier: Apache-2.0
// expect-error: SpatialParallel<H, W, Reproducible<>>: sums over an image's pixels are cut
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = SpatialParallel<2, 2, Reproducible<>>;
#else
using S = SpatialParallel<2, 2, Microbatches<2>, Checkpoint<Every<1>>>;
#endif

int main() { return S::ranks == 4 ? 0 : 1; }
