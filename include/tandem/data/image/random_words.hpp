// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RandomWords: as many random numbers as a transform wants, of the four words that it is given.

#include <cstdint>

#include <tandem/core/philox.hpp>

namespace tandem::detail {

/// The words drawn by Philox with the first two words as seed and the others as half of the
/// counter.
class RandomWords {
 public:
  explicit constexpr RandomWords(Random4 const& bits)
      : seed_{(std::uint64_t{bits.word[1]} << 32) | bits.word[0]},
        high_{(std::uint64_t{bits.word[3]} << 32) | bits.word[2]} {}

  constexpr std::uint32_t next() {
    if (used_ % 4 == 0) {
      block_ = philox(seed_, RandomUse::augmentation, used_ / 4, high_);
    }
    return block_.word[used_++ % 4];
  }

  /// Uniform in [0, n).
  constexpr int below(int n) {
    return static_cast<int>(tandem::below(next(), static_cast<std::uint32_t>(n)));
  }
  /// Uniform in [low, high).
  constexpr double between(double low, double high) {
    return low + (high - low) * static_cast<double>(uniform(next()));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t high_;
  std::uint64_t used_ = 0;
  Random4 block_{};
};

}  // namespace tandem::detail
