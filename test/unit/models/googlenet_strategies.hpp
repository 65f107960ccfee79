// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One training step of GoogLeNet under a strategy, to be compared with that of one device.

#include <cstdint>
#include <vector>

#include <tandem/tandem.hpp>

namespace tandem::test {

struct CifarGoogLeNet : models::GoogLeNet<10> {};

/// The loss of a step on four samples in four microbatches, and all gradients.
template <class S>
std::vector<double> googlenet_step() {
  constexpr int samples = 4;
  Trainer<CifarGoogLeNet, S, BasicHost<Portable>> trainer{
      {.batch = samples, .optimizer = Sgd{.learning_rate = 0.1F}, .seed = 5}};
  std::vector<float> x(static_cast<std::size_t>(samples * trainer.input.elements()));
  std::vector<std::int32_t> y(samples);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = uniform(philox(1, RandomUse::user, i, 0).word[0]) - 0.5F;
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = static_cast<std::int32_t>(3 * i % 10);
  }
  std::vector<double> numbers{trainer.step(x, y).loss};
  for (auto const& parameter : trainer.parameters()) {
    numbers.insert(numbers.end(), parameter.gradient.begin(), parameter.gradient.end());
  }
  return numbers;
}

inline std::vector<double> const& googlenet_on_one_device() {
  static std::vector<double> const numbers =
      googlenet_step<SingleDevice<Microbatches<4>, Reproducible<>>>();
  return numbers;
}

}  // namespace tandem::test
