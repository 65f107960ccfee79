// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ResNet-50 for 224×224 images, stride 2 in the 3×3 convolution of a block ("v1.5").
///
///   stage  blocks                                  output          parameters
///   stem   7×7 stride 2, 3×3 max pool stride 2     (64, 56, 56)         9,536
///   1      3 of 1×1 64,  3×3 64,  1×1 256          (256, 56, 56)      215,808
///   2      4 of 1×1 128, 3×3 128, 1×1 512          (512, 28, 28)    1,219,584
///   3      6 of 1×1 256, 3×3 256, 1×1 1024         (1024, 14, 14)   7,098,368
///   4      3 of 1×1 512, 3×3 512, 1×1 2048         (2048, 7, 7)    14,964,736
///   head   average of each channel, linear         (1000)           2,049,000
///
/// Source: He, Zhang, Ren, Sun, arXiv:1512.03385, table 1; the place of the stride as in the widely
/// used implementations, which reach a higher accuracy with it.

#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/models/resnet_cifar.hpp>

namespace tandem::models {

namespace detail {

// 1×1 down to Width channels, 3×3, 1×1 up to four times Width; the ReLU after the sum follows in
// Bottleneck.
template <int Width, int Step>
struct BottleneckBody : Sequential<Conv2d<Width, NoBias>, BatchNorm2d<>, ReLU,  //
                                   Conv3x3<Width, Step>, BatchNorm2d<>, ReLU,   //
                                   Conv2d<4 * Width, NoBias>, BatchNorm2d<>> {};

template <int Width, int Step, class Shortcut>
struct Bottleneck : Sequential<Residual<BottleneckBody<Width, Step>, Shortcut>, ReLU> {};

// The first block of a stage, which changes the shape, and the others.
template <int Width, int Step>
struct FirstBottleneck : Bottleneck<Width, Step, Projection<4 * Width, Step>> {};
template <int Width>
struct NextBottleneck : Bottleneck<Width, 1, Sequential<>> {};

}  // namespace detail

/// ResNet-50 for ImageNet: 25,557,032 parameters and 4.09 G multiply-accumulates a sample with 1000
/// classes; 22 top-level layers, each block one.
template <int Classes>
struct ResNet50
    : Network<Image<3, 224, 224>,
              Sequential<Conv2d<64, Kernel<7>, Stride<2>, Padding<3>, NoBias>, BatchNorm2d<>, ReLU,
                         MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>,                   // 3
                         detail::FirstBottleneck<64, 1>, detail::NextBottleneck<64>,    // 4
                         detail::NextBottleneck<64>,                                    //
                         detail::FirstBottleneck<128, 2>, detail::NextBottleneck<128>,  // 7
                         detail::NextBottleneck<128>, detail::NextBottleneck<128>,      //
                         detail::FirstBottleneck<256, 2>, detail::NextBottleneck<256>,  // 11
                         detail::NextBottleneck<256>, detail::NextBottleneck<256>,      //
                         detail::NextBottleneck<256>, detail::NextBottleneck<256>,      //
                         detail::FirstBottleneck<512, 2>, detail::NextBottleneck<512>,  // 17
                         detail::NextBottleneck<512>,                                   //
                         GlobalAvgPool, Linear<Classes>>> {};                           // 20

}  // namespace tandem::models
