// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Networks of whose images devices may have tiles.

#include <tandem/tandem.hpp>

namespace tandem::test {

/// Halos of corners, of one side, of seven pixels and of dilated kernels; norms of all tiles;
/// joins; whole images between for a norm of groups, from which tiles are cut again; at last 3×3,
/// which are whole.
struct Tiles
    : Network<Image<2, 12, 12>,
              Sequential<Conv2d<4, Kernel<7>, Padding<3>, NoBias>, BatchNorm2d<>, ReLU,
                         Concat<Conv2d<3>, MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                                Sequential<Conv2d<2, Kernel<3>, Padding<2>, Dilation<2>>, Sigmoid>>,
                         Residual<Sequential<Conv2d<9, Kernel<3>, Padding<1>>, ReLU>>, GroupNorm<3>,
                         Conv2d<4, Kernel<3>, Stride<2>, Padding<1>, Groups<1>>, ReLU,
                         AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                         Conv2d<6, Kernel<2>, Stride<2>, NoBias>, BatchNorm2d<>, ReLU,
                         Conv2d<4, Kernel<3>, Padding<1>>, Flatten, Linear<5>>> {};

/// An Inception block, whose siblings a backend merges and writes in place, with biases that norms
/// take over; and a norm of all replicas.
struct TiledBlocks
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<4, Kernel<3>, Padding<1>>, ReLU,
                         Concat<Sequential<Conv2d<4>, BatchNorm2d<>, ReLU>,
                                Sequential<Conv2d<2>, BatchNorm2d<>, ReLU,
                                           Conv2d<4, Kernel<3>, Padding<1>>, BatchNorm2d<>, ReLU>,
                                Sequential<MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>, Conv2d<2>,
                                           BatchNorm2d<>, ReLU>>,
                         Conv2d<8, Kernel<3>, Stride<2>, Padding<1>, NoBias>, SyncBatchNorm2d<>,
                         ReLU, GlobalAvgPool, Linear<5>>> {};

}  // namespace tandem::test
