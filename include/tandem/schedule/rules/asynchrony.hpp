// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Asynchrony: how an asynchronous pipeline trains, as a value.
///
/// The microbatches of all steps are numbered through: step t has g = t m, …, t m + m - 1. Stage k
/// of p does F(g), and then, if g - delay(k) is one, B(g - delay(k)). After the last B of a step
/// comes its update. A gradient is therefore late; docs/asynchronous.md has each rule's equation.

#include <cstdint>

namespace tandem {

/// Which weights a stage's passes read. A version is the number of updates that they have had.
enum class WeightRule : std::uint8_t {
  stashed,          ///< F the current ones, B those that its F has read: PipeDream
  vertical,         ///< F and B those that the first stage has for the microbatch: vertical sync
  double_buffered,  ///< F and B those of the step before the last whole one: PipeDream-2BW
  predicted,        ///< F a prediction of those that B will have, B the current ones: SpecTrain
  replayed,         ///< F the current ones; B, too, and computes the forward pass again with them
};

struct Asynchrony {
  int devices = 0;  ///< 0: synchronous
  int microbatches = 1;
  WeightRule weights = WeightRule::stashed;
  int delays = 1;  ///< microbatches by which each stage is later than the next

  [[nodiscard]] constexpr bool on() const { return devices > 0; }

  /// Microbatches that go forward between one's F and its B.
  [[nodiscard]] constexpr int delay(int stage) const { return delays * (devices - 1 - stage); }

  /// Steps by which the last update of a stage is behind its last forward pass.
  [[nodiscard]] constexpr int late_steps(int stage) const {
    return (delay(stage) + microbatches - 1) / microbatches;
  }

  /// Versions that a stage keeps, of which version v has slot v modulo this number.
  [[nodiscard]] constexpr int versions(int stage) const {
    switch (weights) {
      case WeightRule::stashed:
        return delay(stage) + 1;
      case WeightRule::vertical:
        return delay(0) + 1;
      case WeightRule::double_buffered:
        return 2;
      default:
        return 1;
    }
  }

  /// The version that F(g) reads, or, where predicted, predicts from. Below 0 stands for the
  /// weights of the beginning.
  [[nodiscard]] constexpr std::int64_t forward_version(int stage, std::int64_t g) const {
    switch (weights) {
      case WeightRule::vertical:
        return g - delay(0);
      case WeightRule::double_buffered:
        return g / microbatches - 1;
      default:
        return g - delay(stage);
    }
  }
  /// The version that B(g) reads.
  [[nodiscard]] constexpr std::int64_t backward_version(int stage, std::int64_t g) const {
    return weights == WeightRule::predicted || weights == WeightRule::replayed
               ? g
               : forward_version(stage, g);
  }

  friend constexpr bool operator==(Asynchrony const&, Asynchrony const&) = default;
};

}  // namespace tandem
