// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Inception-V3 for 299×299 images, without the auxiliary classifier.
///
///   top   layer                        output          parameters
///    0    3×3 32, stride 2             (32, 149, 149)         928
///    1    3×3 32                       (32, 147, 147)       9,280
///    2    3×3 64, padding 1            (64, 147, 147)      18,560
///    3    3×3 max pool, stride 2       (64, 73, 73)
///    4    1×1 80                       (80, 73, 73)         5,280
///    5    3×3 192                      (192, 71, 71)      138,624
///    6    3×3 max pool, stride 2       (192, 35, 35)
///    7    A, pool 32                   (256, 35, 35)      255,904
///    8    A, pool 64                   (288, 35, 35)      277,472
///    9    A, pool 64                   (288, 35, 35)      285,152
///   10    B                            (768, 17, 17)    1,153,280
///   11    C, 128                       (768, 17, 17)    1,297,408
///   12    C, 160                       (768, 17, 17)    1,691,008
///   13    C, 160                       (768, 17, 17)    1,691,008
///   14    C, 192                       (768, 17, 17)    2,141,952
///   15    D                            (1280, 8, 8)     1,698,304
///   16    E                            (2048, 8, 8)     5,044,608
///   17    E                            (2048, 8, 8)     6,076,800
///   18    average of each channel      (2048)
///   19    dropout                      (2048)
///   20    linear                       (1000)           2,049,000
///
/// Source: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, arXiv:1512.00567; widths, order of the
/// branches, and epsilon of the batch norms (1/1000) as in the widely used PyTorch implementation.

#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>

namespace tandem::models {

namespace detail::inception_v3 {

/// A convolution without bias, batch norm and ReLU.
template <int Out, class... Options>
struct Conv : Sequential<Conv2d<Out, Options..., NoBias>, BatchNorm2d<Epsilon<1, 1000>>, ReLU> {};

// Convolutions that keep height and width, by their kernel.
template <int Out>
struct Conv3x3 : Conv<Out, Kernel<3>, Padding<1>> {};
template <int Out>
struct Conv5x5 : Conv<Out, Kernel<5>, Padding<2>> {};
template <int Out>
struct Conv1x3 : Conv<Out, Kernel<1, 3>, Padding<0, 1>> {};
template <int Out>
struct Conv3x1 : Conv<Out, Kernel<3, 1>, Padding<1, 0>> {};
template <int Out>
struct Conv1x7 : Conv<Out, Kernel<1, 7>, Padding<0, 3>> {};
template <int Out>
struct Conv7x1 : Conv<Out, Kernel<7, 1>, Padding<3, 0>> {};

/// Halves height and width, rounded down: 35 to 17, 17 to 8.
template <int Out>
struct Halve : Conv<Out, Kernel<3>, Stride<2>> {};
using HalvePool = MaxPool2d<Kernel<3>, Stride<2>>;

/// Averages that count the padding as zeros, then a 1×1 convolution.
template <int Out>
struct PoolBranch : Sequential<AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>, Conv<Out>> {};

/// 35×35: 1×1; 5×5; two 3×3; pool. Gives 224 + Pool channels. Figure 5 of the paper.
template <int Pool>
struct BlockA : Concat<Conv<64>,                                        //
                       Sequential<Conv<48>, Conv5x5<64>>,               //
                       Sequential<Conv<64>, Conv3x3<96>, Conv3x3<96>>,  //
                       PoolBranch<Pool>> {};

/// 35×35 to 17×17: 3×3; two 3×3; max pool. Gives 480 more channels.
struct BlockB : Concat<Halve<384>,                                    //
                       Sequential<Conv<64>, Conv3x3<96>, Halve<96>>,  //
                       HalvePool> {};

/// 17×17: 1×1; 7×7 as 1×7 and 7×1; the same twice; pool. Gives 768 channels. Figure 6.
template <int Width>
struct BlockC : Concat<Conv<192>,                                               //
                       Sequential<Conv<Width>, Conv1x7<Width>, Conv7x1<192>>,   //
                       Sequential<Conv<Width>, Conv7x1<Width>, Conv1x7<Width>,  //
                                  Conv7x1<Width>, Conv1x7<192>>,                //
                       PoolBranch<192>> {};

/// 17×17 to 8×8: 3×3; 7×7 and 3×3; max pool. Gives 512 more channels.
struct BlockD : Concat<Sequential<Conv<192>, Halve<320>>,                              //
                       Sequential<Conv<192>, Conv1x7<192>, Conv7x1<192>, Halve<192>>,  //
                       HalvePool> {};

/// A 3×3 whose two halves are not applied one after the other but side by side.
struct Spread : Concat<Conv1x3<384>, Conv3x1<384>> {};

/// 8×8: 1×1; spread; 3×3 and spread; pool. Gives 2048 channels. Figure 7.
struct BlockE : Concat<Conv<320>,                                    //
                       Sequential<Conv<384>, Spread>,                //
                       Sequential<Conv<448>, Conv3x3<384>, Spread>,  //
                       PoolBranch<192>> {};

}  // namespace detail::inception_v3

/// Inception-V3 for ImageNet: 23,834,568 parameters and 5.71 G multiply-accumulates a sample with
/// 1000 classes; 21 top-level layers, 94 convolutions.
template <int Classes>
struct InceptionV3 : Network<Image<3, 299, 299>,
                             Sequential<detail::inception_v3::Conv<32, Kernel<3>, Stride<2>>,  //
                                        detail::inception_v3::Conv<32, Kernel<3>>,             //
                                        detail::inception_v3::Conv3x3<64>,                     //
                                        detail::inception_v3::HalvePool,                       // 3
                                        detail::inception_v3::Conv<80>,                        //
                                        detail::inception_v3::Conv<192, Kernel<3>>,            //
                                        detail::inception_v3::HalvePool,                       // 6
                                        detail::inception_v3::BlockA<32>,                      //
                                        detail::inception_v3::BlockA<64>,                      //
                                        detail::inception_v3::BlockA<64>,                      //
                                        detail::inception_v3::BlockB,                          // 10
                                        detail::inception_v3::BlockC<128>,                     //
                                        detail::inception_v3::BlockC<160>,                     //
                                        detail::inception_v3::BlockC<160>,                     //
                                        detail::inception_v3::BlockC<192>,                     //
                                        detail::inception_v3::BlockD,                          // 15
                                        detail::inception_v3::BlockE,                          //
                                        detail::inception_v3::BlockE,                          //
                                        GlobalAvgPool, Dropout<>, Linear<Classes>>> {};        // 18

}  // namespace tandem::models
