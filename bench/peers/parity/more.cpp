// SPDX-License-Identifier: Apache-2.0

/// @file
/// Small networks with the losses, layers and strategies that layers.cpp has not; networks.py has
/// their twins.

#include "parity.hpp"

namespace tandem::bench::parity {

namespace {

/// For a loss per output, and the average of each channel.
struct Regression
    : Network<Image<4, 9, 9>,
              Sequential<Conv2d<16, Kernel<5>, Padding<2>>, ReLU, GlobalAvgPool, Linear<5>>> {};

struct Dropped
    : Network<Image<2, 6, 5>,
              Sequential<Conv2d<8, Kernel<3>>, Dropout<Percent<20>>, ReLU, Flatten, Linear<17>,
                         Dropout<>, ReLU, Frozen<Dropout<Percent<30>>>, Linear<4>>> {};

struct Fixed : Network<Image<2, 8, 8>,
                       Sequential<Conv2d<8, Kernel<3>>, Frozen<BatchNorm2d<>>, ReLU,
                                  Frozen<Sequential<Conv2d<8, Kernel<3>>, BatchNorm2d<>, ReLU>>,
                                  Conv2d<8, Kernel<3>>, BatchNorm2d<>, GlobalAvgPool, Linear<4>>> {
};

template <class Norm>
struct Normed : Network<Image<2, 8, 8>,
                        Sequential<Conv2d<8, Kernel<3>>, Norm, ReLU, GlobalAvgPool, Linear<4>>> {};

Case const smoothed{"smoothed", &run<Regression, SingleDevice<>, SoftmaxCrossEntropy<Percent<10>>>};
Case const regression{"regression", &run<Regression, SingleDevice<>, MeanSquaredError>};
Case const dropout{"dropout", &run<Dropped>};
Case const frozen{"frozen", &run<Fixed>};
Case const synchronized{"synchronized", &run<Normed<SyncBatchNorm2d<>>, DataParallel<2>>};
Case const microbatches{"microbatches", &run<Normed<BatchNorm2d<>>, SingleDevice<Microbatches<2>>>};

}  // namespace

}  // namespace tandem::bench::parity
