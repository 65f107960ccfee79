// SPDX-License-Identifier: Apache-2.0
// expect-error: SpatialParallel<H, W>: this network has nothing that could be computed tile by tile
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<1, 7, 7>, Sequential<Conv2d<2, Kernel<3>, Padding<1>>, Flatten>> {};
#else
struct Net : Network<Image<1, 8, 7>, Sequential<Conv2d<2, Kernel<3>, Padding<1>>, Flatten>> {};
#endif

int main() { return Program<Net, SpatialParallel<2, 1>, 4>::slices == 2 ? 0 : 1; }
