// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WeightPlaces: the copies of a stage's weights that an asynchronous pipeline has, and which of
/// them each pass reads.

#include <cstdint>
#include <numeric>

#include <tandem/schedule/rules/asynchrony.hpp>

namespace tandem {

/// Places 0 to versions() - 1 are a ring: version v has place v modulo their number. Where weights
/// are predicted, the prediction has the place behind them. A synchronous stage has one place.
struct WeightPlaces {
  Asynchrony rule{};
  int stage = 0;

  [[nodiscard]] constexpr int versions() const { return rule.on() ? rule.versions(stage) : 1; }

  /// The last stage has nothing to predict: its gradients are not late.
  [[nodiscard]] constexpr bool predicts() const {
    return rule.on() && rule.weights == WeightRule::predicted && rule.delay(stage) > 0;
  }
  [[nodiscard]] constexpr int prediction() const { return versions(); }
  [[nodiscard]] constexpr int count() const { return versions() + (predicts() ? 1 : 0); }

  /// Versions below 0 are the weights of the beginning, which every place has then.
  [[nodiscard]] constexpr int of_version(std::int64_t version) const {
    std::int64_t const ring = versions();
    return static_cast<int>((version % ring + ring) % ring);
  }
  /// What F(g) and B(g) read; both are periodic in g with tables().
  [[nodiscard]] constexpr int forward(std::int64_t g) const {
    return predicts() ? prediction() : of_version(rule.forward_version(stage, g));
  }
  [[nodiscard]] constexpr int backward(std::int64_t g) const {
    return of_version(rule.backward_version(stage, g));
  }

  /// Microbatches from the arrival of one's input to the end of its B.
  [[nodiscard]] constexpr int live() const { return rule.delay(stage) + 1; }
  /// So many tables of pointers that each always has the same memory and the same weights:
  /// microbatch g has table g modulo this number.
  [[nodiscard]] constexpr int tables() const {
    return std::lcm(live(), versions() > 1 ? versions() * rule.microbatches : 1);
  }
};

}  // namespace tandem
