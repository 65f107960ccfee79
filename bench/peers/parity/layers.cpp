// SPDX-License-Identifier: Apache-2.0

/// @file
/// A small network with most layers and options; networks.py has its twin.

#include "parity.hpp"

namespace tandem::bench::parity {

namespace {

/// Windows that are no squares, groups, siblings on one input, both residuals, all pools.
struct Layers
    : Network<
          Image<3, 13, 11>,
          Sequential<Conv2d<16, Kernel<3, 2>, Stride<2, 1>, Padding<1, 0>>, ReLU,  // (16, 7, 10)
                     Conv2d<16, Kernel<3>, Padding<1>, Groups<2>, NoBias>,         //
                     BatchNorm2d<Epsilon<1, 1000>, Momentum<1, 4>>, ReLU,          //
                     Concat<Sequential<Conv2d<8>, BatchNorm2d<>, ReLU>,            //
                            Sequential<Conv2d<8>, ReLU, Conv2d<16, Kernel<3>, Padding<1>>>,  //
                            Sequential<MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>, Conv2d<4>>,
                            AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>>,  // (44, 7, 10)
                     Residual<Sequential<BatchNorm2d<>, ReLU, Conv2d<44, Kernel<3>, Padding<1>>>>,
                     Residual<Conv2d<48, Kernel<3>, Stride<2>, Padding<1>>, Subsample2d<48, 2>>,
                     AvgPool2d<Kernel<3>, Stride<2>, Padding<1>, ExcludePadding>,      // (48, 2, 3)
                     Residual<Conv2d<20, NoBias>, Conv2d<20, Kernel<3>, Padding<1>>>,  //
                     MaxPool2d<Kernel<2>, Stride<1>>, Flatten, Linear<24>, ReLU,       //
                     Linear<7, NoBias>>> {};

Case const layers{"layers", &run<Layers>};

}  // namespace

}  // namespace tandem::bench::parity
