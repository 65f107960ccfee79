// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Small networks and data for tests of training: every kind of node on images of 3×8×8.

#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/data/tensor_dataset.hpp>
#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>

namespace tandem::test {

/// Convolution, batch norm, a residual sum, a concatenation of three branches, the three pools,
/// dropout and a linear layer. No bias before a batch norm: its gradient would be rounding alone.
struct TinyNet
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<6, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>, ReLU,  // 0 1 2
                         Residual<Sequential<Conv2d<6, Kernel<3>, Padding<1>, NoBias>,
                                             BatchNorm2d<>>>,  // 3
                         Concat<Conv2d<4>, MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                                Sequential<AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                                           Conv2d<3>>>,        // 4 (13, 8, 8)
                         MaxPool2d<Kernel<2>>,                 // 5 (13, 4, 4)
                         Dropout<Percent<25>>, GlobalAvgPool,  // 6 7
                         Linear<5>>> {};                       // 8

/// The smallest that learns: no batch norm, no dropout.
struct PlainNet
    : Network<Image<1, 4, 4>, Sequential<Conv2d<2, Kernel<3>>, ReLU, Flatten, Linear<3>>> {};

/// Samples and labels from (seed, index) alone.
template <class T>
struct Samples {
  Samples(Shape const& shape, int classes, int count, std::uint64_t seed = 1) {
    std::int64_t const elements = shape.elements() * count;
    for (std::int64_t i = 0; i < elements; ++i) {
      Random4 const r = philox(seed, RandomUse::user, static_cast<std::uint64_t>(i), 0);
      x.push_back(static_cast<T>(2.0F * uniform(r.word[0]) - 1.0F));
    }
    for (int s = 0; s < count; ++s) {
      Random4 const r = philox(seed, RandomUse::user, static_cast<std::uint64_t>(s), 1);
      y.push_back(static_cast<std::int32_t>(below(r.word[0], static_cast<std::uint32_t>(classes))));
    }
  }
  std::vector<T> x;
  std::vector<std::int32_t> y;
};

/// The same as a dataset. Not inlined: GCC 12 would warn of Shape's loop over its extents.
[[gnu::noinline]] inline TensorDataset<std::int32_t> dataset(Shape const& shape,
                                                             Samples<float> samples) {
  return {shape, std::move(samples.x), std::move(samples.y)};
}

inline TensorDataset<std::int32_t> dataset(Shape const& shape, int classes, int count,
                                           std::uint64_t seed = 1) {
  return dataset(shape, Samples<float>{shape, classes, count, seed});
}

}  // namespace tandem::test
