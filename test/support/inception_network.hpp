// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A small network of branches, for tests of what backends rewrite.

#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>

namespace tandem::test {

/// No bias before a batch norm: its gradient would be rounding alone.
template <int Out, class... Options>
using Norm = Sequential<Conv2d<Out, Options..., NoBias>, BatchNorm2d<>, ReLU>;

/// Everything that is rewritten: merged siblings, concatenations in place, a standalone ReLU and a
/// Dropout in place, sums, a Flatten that must be copied.
struct InceptionNet
    : Network<Image<3, 8, 8>,
              Sequential<Norm<6, Kernel<3>, Padding<1>>,
                         Concat<Norm<4>, Sequential<Norm<3>, Norm<5, Kernel<3>, Padding<1>>>,
                                Sequential<Norm<2>, Concat<Norm<3, Kernel<5>, Padding<2>>,
                                                           Norm<1, Kernel<1, 3>, Padding<0, 1>>>>,
                                MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>>,
                         Residual<Sequential<Norm<9>, Conv2d<19>>>, ReLU, Dropout<Percent<25>>,
                         MaxPool2d<Kernel<2>>, Flatten, Linear<5>>> {};

}  // namespace tandem::test
