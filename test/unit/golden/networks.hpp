// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The networks of test/golden/networks.py, as types.

#include <tandem/tandem.hpp>

namespace tandem::test {

/// Identity and projection shortcuts; biases before a batch norm; max pool.
struct ResidualNet
    : Network<
          Image<3, 8, 8>,
          Sequential<Conv2d<4, Kernel<3>, Padding<1>>, BatchNorm2d<>, ReLU,
                     Residual<Sequential<Conv2d<4, Kernel<3>, Padding<1>>, BatchNorm2d<>, ReLU,
                                         Conv2d<4, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>>>,
                     ReLU,
                     Residual<Sequential<Conv2d<6, Kernel<3>, Stride<2>, Padding<1>, NoBias>,
                                         BatchNorm2d<>, ReLU, Conv2d<6, Kernel<3>, Padding<1>>,
                                         BatchNorm2d<>>,
                              Sequential<Conv2d<6, Stride<2>, NoBias>, BatchNorm2d<>>>,
                     ReLU, MaxPool2d<Kernel<2>>, GlobalAvgPool, Linear<5>>> {};

/// Two blocks of models/googlenet.hpp with few channels, an overlapping max pool between them.
struct TwoInceptionsNet
    : Network<Image<3, 8, 8>,
              Sequential<models::ConvNormReLU<4, Kernel<3>, Padding<1>>,
                         models::Inception<2, 2, 3, 2, 3, 2>, models::HalvePool,
                         models::Inception<3, 2, 2, 2, 2, 2>, GlobalAvgPool, Linear<4>>> {};

/// What the others lack: rectangular and grouped convolutions, average pools with padding, a frozen
/// part in the middle, an option-A shortcut with an odd number of new channels, other options.
struct VarietyNet
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<6, Kernel<1, 3>, Padding<0, 1>, Groups<3>>, ReLU,
                         Frozen<Sequential<Conv2d<6>, BatchNorm2d<>>>,
                         AvgPool2d<Kernel<3>, Stride<2>, Padding<1>>,
                         Residual<Sequential<Conv2d<9, Kernel<3, 1>, Stride<2>, Padding<1, 0>,
                                                    Groups<3>, NoBias>,
                                             BatchNorm2d<Epsilon<1, 1000>, Momentum<3, 10>>>,
                                  Subsample2d<9, 2>>,
                         AvgPool2d<Kernel<2, 3>, Stride<1, 2>, Padding<1>, ExcludePadding>, Flatten,
                         Linear<4>, ReLU, Linear<3, NoBias>>> {};

/// Gates, dilation, every padding mode, groups of channels normalised, and ways to enlarge an
/// image.
struct GatedNet
    : Network<Image<3, 8, 8>,
              Sequential<
                  Pad2d<Padding<1>, Reflect>, Conv2d<8, Kernel<3>, Padding<2>, Dilation<2>>,
                  GroupNorm<2>, ReLU, Conv2d<6, Kernel<3>, Stride<2>, Padding<1>, NoBias>,
                  InstanceNorm2d<>,
                  Multiply<Conv2d<6>, Sequential<Conv2d<6, Kernel<3>, Padding<1>>, Sigmoid>,
                           Sequential<>>,
                  ConvTranspose2d<4, Kernel<3>, Stride<2>, Padding<1>, OutputPadding<1>, Groups<2>>,
                  GroupNorm<4, Epsilon<1, 1000>>, ReLU, Pad2d<Padding<0, 1>, Replicate>,
                  Upsample<2, Bilinear>, Conv2d<5, Kernel<3, 2>, Stride<3>, Dilation<1, 3>>,
                  Upsample<2>, Pad2d<Padding<1, 2>, Circular>, InstanceNorm2d<Affine>,
                  AvgPool2d<Kernel<4>>, Flatten, GroupNorm<5>, Linear<4>>> {};

}  // namespace tandem::test
