// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Philox4x32-10, a counter-based generator: the random numbers of a place, with no state to carry.
///
/// A number depends on its key and its counter only, never on which device draws it or in which
/// order, so that dropout, augmentation and initial weights are the same under every strategy.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

#include <cstdint>

#include <tandem/core/config.hpp>

namespace tandem {

/// Four words drawn at once.
struct Random4 {
  std::uint32_t word[4];
};

/// What a random number is for; part of every key, so that no two uses share numbers.
enum class RandomUse : std::uint32_t {
  initial_weights = 1,
  dropout,
  order,
  augmentation,
  user,
  generation,
  sampling
};

/// The 128 bits at counter (@p low, @p high) of the stream with key (@p seed, @p use).
TANDEM_HOST_DEVICE constexpr Random4 philox(std::uint64_t seed, RandomUse use, std::uint64_t low,
                                            std::uint64_t high) {
  std::uint32_t key0 = static_cast<std::uint32_t>(seed) ^ (static_cast<std::uint32_t>(use) << 24);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  Random4 r{{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
             static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const a = 0xD2511F53ULL * r.word[0];
    std::uint64_t const b = 0xCD9E8D57ULL * r.word[2];
    r = Random4{
        {static_cast<std::uint32_t>(b >> 32) ^ r.word[1] ^ key0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ r.word[3] ^ key1, static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return r;
}

/// Uniform in [0, 1), 24 bits.
TANDEM_HOST_DEVICE constexpr float uniform(std::uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0F / 16777216.0F);
}

/// Uniform in {0, …, n - 1}; the bias is below n / 2^32.
TANDEM_HOST_DEVICE constexpr std::uint32_t below(std::uint32_t word, std::uint32_t n) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word) * n) >> 32);
}

}  // namespace tandem
