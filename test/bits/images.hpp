// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A small network of images with every kind of node, and its data.

#include "bits.hpp"

namespace tandem::bits {

/// Nine top-level parts.
struct Net
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<6, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>, ReLU,
                         Residual<Sequential<Conv2d<6, Kernel<3>, Padding<1>>, ReLU, Conv2d<6>>>,
                         Concat<Conv2d<4>, MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                                Sequential<AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>, Conv2d<2>>>,
                         MaxPool2d<Kernel<2>>, Dropout<Percent<25>>, GlobalAvgPool, Linear<5>>> {};

/// Of two convolutions that TensorParallel shares, in tiles that SpatialParallel cuts; six parts.
struct Wide : Network<Image<3, 8, 8>,
                      Sequential<Conv2d<8, Kernel<3>, Padding<1>>, SyncBatchNorm2d<>, ReLU,
                                 Conv2d<4, Kernel<3>, Padding<1>>, GlobalAvgPool, Linear<5>>> {};

using Fp32Host = BasicHost<Portable>;
using Fp64Host = BasicHost<Portable, Fp64>;

template <class Backend, class S, class Resume = S, class Network = Net>
void pair(std::string const& folder, char const* name, Options const& options = {}) {
  train<Network, Backend, S, Resume>(folder, name, images(image_shape(3, 8, 8), 30), options);
}

}  // namespace tandem::bits
