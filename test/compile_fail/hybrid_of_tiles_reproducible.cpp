// SPDX-License-Identifier: Apache-2.0
// expect-error: Hybrid<..., SpatialParallel<H, W>> with Reproducible<>: sums over an image's pixels
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Image<1, 8, 8>, Sequential<Conv2d<2, Kernel<3>, Padding<1>>, Flatten>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<2, Reproducible<2>>, SpatialParallel<2, 1>>;
#else
using S = Hybrid<DataParallel<2>, SpatialParallel<2, 1>>;
#endif

int main() { return Program<Net, S, 4>::ranks == 4 ? 0 : 1; }
