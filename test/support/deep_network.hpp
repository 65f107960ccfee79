// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DeepNet: twelve top-level layers on images of 3×8×8, for tests that cut a network in up to eight
/// parts, and its cuts.

#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/strategy/types/pipeline.hpp>

namespace tandem::test {

/// Every kind of node, with sums, branches, batch norms and dropouts on both sides of most cuts. No
/// bias before a batch norm: its gradient would be rounding alone.
struct DeepNet
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<6, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>, ReLU,  // 0 1 2
                         Residual<Sequential<Conv2d<6, Kernel<3>, Padding<1>, NoBias>,
                                             BatchNorm2d<>>>,  // 3
                         Dropout<Percent<25>>,                 // 4
                         Concat<Conv2d<4>, MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                                Sequential<AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                                           Conv2d<3>>>,             // 5 (13, 8, 8)
                         MaxPool2d<Kernel<2>>,                      // 6 (13, 4, 4)
                         Conv2d<5, Kernel<3>, Padding<1>>,          // 7
                         Residual<Sequential<ReLU, Conv2d<5>>>,     // 8
                         GlobalAvgPool, Linear<7>, Linear<5>>> {};  // 9 10 11

template <class Schedule, int Microbatches, class... Options>
using InTwo = Pipeline<Schedule, Microbatches, Split<5>, Split<7>, Options...>;

template <class Schedule, int Microbatches, class... Options>
using InFour = Pipeline<Schedule, Microbatches, Split<2>, Split<3>, Split<3>, Split<4>, Options...>;

template <class Schedule, int Microbatches, class... Options>
using InEight = Pipeline<Schedule, Microbatches, Split<1>, Split<2>, Split<1>, Split<2>, Split<1>,
                         Split<2>, Split<1>, Split<2>, Options...>;

}  // namespace tandem::test
