// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Networks whose convolutions devices may share by channels.

#include <tandem/tandem.hpp>

namespace tandem::test {

/// Four pairs: with pools, a mask and convolutions of groups between; as a branch beside one that
/// is whole; with biases; and a convolution whose image becomes a vector for a Linear.
struct Channels
    : Network<
          Image<3, 8, 8>,
          Sequential<
              Conv2d<8, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>, ReLU,
              MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>, Dropout<Percent<20>>,
              Conv2d<8, Kernel<3>, Padding<1>, Groups<4>>,
              Conv2d<16, Kernel<3>, Padding<1>, Groups<8>, NoBias>, BatchNorm2d<>, Conv2d<6>, ReLU,
              Concat<Conv2d<4>,
                     Sequential<Conv2d<4>, AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                                Conv2d<4, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>>>,
              Residual<Sequential<Conv2d<4>, ReLU, Conv2d<8, Kernel<3>, Padding<1>>>>,
              Conv2d<4, Kernel<3>>, Flatten, Dropout<Percent<30>>, Linear<6>, ReLU, Linear<5>>> {};

/// An Inception block: siblings of which one is whole; and a norm of all replicas within a pair.
struct Blocks
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<4, Kernel<3>, Padding<1>>, ReLU,
                         Concat<Sequential<Conv2d<4>, BatchNorm2d<>, ReLU>,
                                Sequential<Conv2d<2>, BatchNorm2d<>, ReLU,
                                           Conv2d<4, Kernel<3>, Padding<1>>, BatchNorm2d<>, ReLU>,
                                Sequential<Conv2d<4>, BatchNorm2d<>, ReLU, Dropout<Percent<20>>,
                                           Conv2d<2, Kernel<3>, Padding<1>>, BatchNorm2d<>, ReLU>>,
                         Conv2d<8, Kernel<3>, Stride<2>, NoBias>, SyncBatchNorm2d<>, ReLU,
                         GlobalAvgPool, Linear<5>>> {};

}  // namespace tandem::test
