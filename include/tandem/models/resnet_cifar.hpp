// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Residual networks for 32×32 images: ResNet-20 of the original paper, and ResNet-18.

#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/layers/subsample2d.hpp>

namespace tandem::models {

namespace detail {

template <int Out, int Step = 1>
struct Conv3x3 : Conv2d<Out, Kernel<3>, Stride<Step>, Padding<1>, NoBias> {};

// Two 3×3 convolutions; the ReLU after the sum follows in BasicBlock.
template <int Out, int Step>
struct BasicBody
    : Sequential<Conv3x3<Out, Step>, BatchNorm2d<>, ReLU, Conv3x3<Out>, BatchNorm2d<>> {};

// Where the shape changes, a 1×1 convolution with batch norm.
template <int Out, int Step>
struct Projection : Sequential<Conv2d<Out, Stride<Step>, NoBias>, BatchNorm2d<>> {};

template <int Out, int Step, class Shortcut>
struct BasicBlock : Sequential<Residual<BasicBody<Out, Step>, Shortcut>, ReLU> {};

template <int Out>
struct SameBlock : BasicBlock<Out, 1, Sequential<>> {};

}  // namespace detail

/// ResNet-20 for CIFAR: 269,722 parameters with 10 classes, shortcuts without parameters.
/// Source: He, Zhang, Ren, Sun, arXiv:1512.03385, section 4.2 (n = 3, option A).
template <int Classes>
struct ResNet20
    : Network<Image<3, 32, 32>,
              Sequential<detail::Conv3x3<16>, BatchNorm2d<>, ReLU,  //
                         detail::SameBlock<16>, detail::SameBlock<16>, detail::SameBlock<16>,
                         detail::BasicBlock<32, 2, Subsample2d<32, 2>>, detail::SameBlock<32>,
                         detail::SameBlock<32>,  //
                         detail::BasicBlock<64, 2, Subsample2d<64, 2>>, detail::SameBlock<64>,
                         detail::SameBlock<64>,  //
                         GlobalAvgPool, Linear<Classes>>> {};

/// ResNet-18 for CIFAR: 11,173,962 parameters with 10 classes; a 3×3 stem and no first pool.
/// Source: He, Zhang, Ren, Sun, arXiv:1512.03385, as widely adapted to 32×32 images.
template <int Classes>
struct ResNet18
    : Network<
          Image<3, 32, 32>,
          Sequential<detail::Conv3x3<64>, BatchNorm2d<>, ReLU,  //
                     detail::SameBlock<64>, detail::SameBlock<64>,
                     detail::BasicBlock<128, 2, detail::Projection<128, 2>>, detail::SameBlock<128>,
                     detail::BasicBlock<256, 2, detail::Projection<256, 2>>, detail::SameBlock<256>,
                     detail::BasicBlock<512, 2, detail::Projection<512, 2>>,
                     detail::SameBlock<512>,  //
                     GlobalAvgPool, Linear<Classes>>> {};

}  // namespace tandem::models
