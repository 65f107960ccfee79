// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LogUniformSample: the classes that a sampled softmax takes in one step, how often each class was
/// to be expected among them, and where a class stands.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/log_uniform.hpp>

namespace tandem {

/// Different classes by LogUniformSampler, the same of every device of a step.
///
/// Memory: a bit a class and 12 bytes a class of the sample, allocated at construction.
class LogUniformSample {
 public:
  /// @pre 0 <= count <= classes, classes >= 1
  TANDEM_ONCE LogUniformSample(int classes, int count);

  /// Draws those of a step and a layer, unless they are there.
  TANDEM_ONCE void draw(std::uint64_t seed, std::uint32_t step, std::uint32_t layer);

  /// In the order in which they were drawn first.
  [[nodiscard]] std::span<std::int32_t const> classes() const {
    return {drawn_.data(), drawn_.size()};
  }
  /// Draws that it took, repeated ones among them.
  [[nodiscard]] std::int64_t tries() const { return tries_; }

  /// Where class @p c stands in classes(); -1 where it does not.
  TANDEM_ONCE [[nodiscard]] int place(std::int32_t c) const;

  /// What a sampled softmax takes from the logit of class @p c, drawn or not.
  [[nodiscard]] double log_expected_count(int c) const {
    return std::log(sampler_.law().expected_count(c, tries_));
  }

 private:
  LogUniformSampler sampler_;
  std::vector<std::int32_t> drawn_;
  std::vector<std::pair<std::int32_t, std::int32_t>> sorted_;  // class and place
  std::int64_t tries_ = -1;
  std::uint64_t seed_ = 0;
  std::uint32_t step_ = 0;
  std::uint32_t layer_ = 0;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void LogUniformSample::draw(std::uint64_t seed, std::uint32_t step,
                                        std::uint32_t layer) {
  if (tries_ >= 0 && seed == seed_ && step == step_ && layer == layer_) {
    return;
  }
  tries_ = sampler_.draw(drawn_, seed, step, layer);
  seed_ = seed;
  step_ = step;
  layer_ = layer;
  for (std::size_t i = 0; i < drawn_.size(); ++i) {
    sorted_[i] = {drawn_[i], static_cast<std::int32_t>(i)};
  }
  std::sort(sorted_.begin(), sorted_.end());
}

TANDEM_ONCE LogUniformSample::LogUniformSample(int classes, int count)
    : sampler_{classes},
      drawn_(static_cast<std::size_t>(count)),
      sorted_(static_cast<std::size_t>(count)) {}

TANDEM_ONCE int LogUniformSample::place(std::int32_t c) const {
  auto const at =
      std::lower_bound(sorted_.begin(), sorted_.end(), std::pair<std::int32_t, std::int32_t>{c, 0});
  return at != sorted_.end() && at->first == c ? at->second : -1;
}

}  // namespace tandem

#endif
