// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The networks of bench_convergence, for 28×28 grey images, and where each is cut in two.

#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/layers/subsample2d.hpp>
#include <tandem/models/small_cnn.hpp>
#include <tandem/strategy/types/model_options.hpp>

namespace tandem::bench {

struct Quickstart : models::SmallCnn<10> {
  using First = Split<5>;
  using Second = Split<8>;
};

template <int Out, int Step = 1>
struct ResidualConvolution : Conv2d<Out, Kernel<3>, Stride<Step>, Padding<1>, NoBias> {};

template <int Out, int Step = 1, class Shortcut = Sequential<>>
struct ResidualBlock
    : Sequential<Residual<Sequential<ResidualConvolution<Out, Step>, BatchNorm2d<>, ReLU,
                                     ResidualConvolution<Out>, BatchNorm2d<>>,
                          Shortcut>,
                 ReLU> {};

/// Ten layers with parameters: a 3×3 stem of stride 2, four blocks, one linear layer.
struct SmallResidual
    : Network<Image<1, 28, 28>,
              Sequential<ResidualConvolution<16, 2>, BatchNorm2d<>, ReLU,  // (16, 14, 14)
                         ResidualBlock<16>,                                // 3
                         ResidualBlock<32, 2, Subsample2d<32, 2>>,         // 4  (32, 7, 7)
                         ResidualBlock<32>,                                // 5
                         ResidualBlock<64, 2, Subsample2d<64, 2>>,         // 6  (64, 4, 4)
                         GlobalAvgPool, Linear<10>>> {
  using First = Split<5>;
  using Second = Split<4>;
};

}  // namespace tandem::bench
