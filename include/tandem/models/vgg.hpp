// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// VGG-16: thirteen 3×3 convolutions between five pools; as it is trained on CIFAR-10, with batch
/// norm and one linear layer, and the original for 224×224 images with its three.
///
///   convolutions         image of 32×32        image of 224×224
///   64, 64, pool         (64, 16, 16)          (64, 112, 112)
///   128, 128, pool       (128, 8, 8)           (128, 56, 56)
///   256, 256, 256, pool  (256, 4, 4)           (256, 28, 28)
///   512, 512, 512, pool  (512, 2, 2)           (512, 14, 14)
///   512, 512, 512, pool  (512, 1, 1)           (512, 7, 7)
///   linear               512, Classes          25088, 4096, 4096, Classes
///
/// Source: Simonyan, Zisserman, arXiv:1409.1556, table 1, column D.

#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>

namespace tandem::models {

namespace detail {

/// A 3×3 convolution that keeps height and width, with bias, and ReLU.
template <int Out>
struct VggConv : Sequential<Conv2d<Out, Kernel<3>, Padding<1>>, ReLU> {};

/// The same with batch norm between the two.
template <int Out>
struct VggNormConv : Sequential<Conv2d<Out, Kernel<3>, Padding<1>>, BatchNorm2d<>, ReLU> {};

using VggPool = MaxPool2d<Kernel<2>>;

}  // namespace detail

/// VGG-16 with batch norm for CIFAR: 14,728,266 parameters and 313 M multiply-accumulates a sample
/// with 10 classes; 20 top-level layers. Convolution biases included, as in the widely used
/// version.
template <int Classes>
struct Vgg16Bn
    : Network<Image<3, 32, 32>, Sequential<detail::VggNormConv<64>, detail::VggNormConv<64>,  // 0
                                           detail::VggPool,                                   // 2
                                           detail::VggNormConv<128>, detail::VggNormConv<128>,
                                           detail::VggPool,  // 5
                                           detail::VggNormConv<256>, detail::VggNormConv<256>,
                                           detail::VggNormConv<256>, detail::VggPool,  // 9
                                           detail::VggNormConv<512>, detail::VggNormConv<512>,
                                           detail::VggNormConv<512>, detail::VggPool,  // 13
                                           detail::VggNormConv<512>, detail::VggNormConv<512>,
                                           detail::VggNormConv<512>, detail::VggPool,  // 17
                                           Flatten, Linear<Classes>>> {};

/// VGG-16 for ImageNet: 138,357,544 parameters, of which the first linear layer has 102,764,544,
/// and 15.47 G multiply-accumulates a sample with 1000 classes; 26 top-level layers.
template <int Classes>
struct Vgg16 : Network<Image<3, 224, 224>,
                       Sequential<detail::VggConv<64>, detail::VggConv<64>, detail::VggPool,    // 0
                                  detail::VggConv<128>, detail::VggConv<128>, detail::VggPool,  // 3
                                  detail::VggConv<256>, detail::VggConv<256>, detail::VggConv<256>,
                                  detail::VggPool,  // 9
                                  detail::VggConv<512>, detail::VggConv<512>, detail::VggConv<512>,
                                  detail::VggPool,  // 13
                                  detail::VggConv<512>, detail::VggConv<512>, detail::VggConv<512>,
                                  detail::VggPool,                         // 17 (512, 7, 7)
                                  Flatten, Linear<4096>, ReLU, Dropout<>,  // 18
                                  Linear<4096>, ReLU, Dropout<>,           // 22
                                  Linear<Classes>>> {};                    // 25

}  // namespace tandem::models
