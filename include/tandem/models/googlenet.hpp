// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GoogLeNet for 32×32 images: nine Inception blocks, batch norm, no auxiliary heads.

#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>

namespace tandem::models {

/// A convolution with bias, batch norm and ReLU.
template <int Out, class... Options>
struct ConvNormReLU : Sequential<Conv2d<Out, Options...>, BatchNorm2d<>, ReLU> {};

/// Four branches on one input: 1×1; 1×1 then 3×3; 1×1 then two 3×3; 3×3 max-pool then 1×1.
template <int One, int ThreeReduce, int Three, int FiveReduce, int Five, int Pool>
struct Inception
    : Concat<ConvNormReLU<One>,
             Sequential<ConvNormReLU<ThreeReduce>, ConvNormReLU<Three, Kernel<3>, Padding<1>>>,
             Sequential<ConvNormReLU<FiveReduce>, ConvNormReLU<Five, Kernel<3>, Padding<1>>,
                        ConvNormReLU<Five, Kernel<3>, Padding<1>>>,
             Sequential<MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>, ConvNormReLU<Pool>>> {};

using HalvePool = MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>;

/// GoogLeNet as it is trained on CIFAR-10: 6,166,250 parameters and 1.52 G multiply-accumulates a
/// sample with 10 classes; 14 top-level layers, which is what Split counts.
///
/// Source: Szegedy et al., arXiv:1409.4842; widths and the two 3×3 in the 5×5 branch as in the
/// widely used CIFAR version, convolution biases included.
template <int Classes>
struct GoogLeNet : Network<Image<3, 32, 32>,
                           Sequential<ConvNormReLU<192, Kernel<3>, Padding<1>>,  // 0
                                      Inception<64, 96, 128, 16, 32, 32>,        // 1  (256, 32, 32)
                                      Inception<128, 128, 192, 32, 96, 64>,      // 2  (480, 32, 32)
                                      HalvePool,                                 // 3  (480, 16, 16)
                                      Inception<192, 96, 208, 16, 48, 64>,       // 4  (512, 16, 16)
                                      Inception<160, 112, 224, 24, 64, 64>,      // 5
                                      Inception<128, 128, 256, 24, 64, 64>,      // 6
                                      Inception<112, 144, 288, 32, 64, 64>,      // 7  (528, 16, 16)
                                      Inception<256, 160, 320, 32, 128, 128>,    // 8  (832, 16, 16)
                                      HalvePool,                                 // 9  (832, 8, 8)
                                      Inception<256, 160, 320, 32, 128, 128>,    // 10
                                      Inception<384, 192, 384, 48, 128, 128>,    // 11 (1024, 8, 8)
                                      GlobalAvgPool,                             // 12 (1024)
                                      Linear<Classes>>> {};                      // 13

}  // namespace tandem::models
