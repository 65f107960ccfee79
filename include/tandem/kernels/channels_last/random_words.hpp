// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// random_words: philox() of 16 counters at once, the same numbers, in vectors of the compilers'.
///
/// Measured on a Zen 4: 0.5 ns a word, where one counter at a time takes 3 ns.

#include <cstdint>
#include <cstring>

#include <tandem/core/philox.hpp>

namespace tandem::host::channels_last {

namespace detail {

using PairVector = std::uint64_t __attribute__((vector_size(64)));

/// A word of each of 8 counters, in the lower halves.
struct FourWords {
  PairVector w0;
  PairVector w1;
  PairVector w2;
  PairVector w3;
};

[[gnu::always_inline]] inline void start_words(FourWords& s, std::uint64_t low,
                                               std::uint64_t high) {
  PairVector const counter = high + PairVector{0, 1, 2, 3, 4, 5, 6, 7};
  s.w0 = PairVector{} + (low & 0xFFFFFFFFU);
  s.w1 = PairVector{} + (low >> 32);
  s.w2 = counter & 0xFFFFFFFFU;
  s.w3 = counter >> 32;
}

/// One round of philox().
[[gnu::always_inline]] inline void mix_words(FourWords& s, std::uint64_t key0, std::uint64_t key1) {
  PairVector const a = 0xD2511F53ULL * s.w0;
  PairVector const b = 0xCD9E8D57ULL * s.w2;
  s.w0 = (b >> 32) ^ s.w1 ^ key0;
  s.w1 = b & 0xFFFFFFFFU;
  s.w2 = (a >> 32) ^ s.w3 ^ key1;
  s.w3 = a & 0xFFFFFFFFU;
}

[[gnu::always_inline]] inline void store_words(FourWords const& s, std::uint32_t* words) {
  PairVector const first = s.w0 | s.w1 << 32;
  PairVector const second = s.w2 | s.w3 << 32;
  PairVector const early = __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11);
  PairVector const late = __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15);
  std::memcpy(words, &early, sizeof early);
  std::memcpy(words + 16, &late, sizeof late);
}

/// philox() at the counters high, …, high + 7 of @p s and high + 8, …, high + 15 of @p t: two,
/// since each round waits for the one before.
[[gnu::always_inline]] inline void draw_words(std::uint64_t seed, RandomUse use, std::uint64_t low,
                                              std::uint64_t high, FourWords& s, FourWords& t) {
  std::uint32_t key0 = static_cast<std::uint32_t>(seed) ^ (static_cast<std::uint32_t>(use) << 24);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  start_words(s, low, high);
  start_words(t, low, high + 8);
  for (int round = 0; round < 10; ++round) {
    mix_words(s, key0, key1);
    mix_words(t, key0, key1);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
}

}  // namespace detail

/// The words of philox(seed, use, low, high + i), i = 0 … 15, behind one another: 64 of them.
inline void random_words(std::uint64_t seed, RandomUse use, std::uint64_t low, std::uint64_t high,
                         std::uint32_t* words) {
  detail::FourWords s;
  detail::FourWords t;
  detail::draw_words(seed, use, low, high, s, t);
  detail::store_words(s, words);
  detail::store_words(t, words + 32);
}

}  // namespace tandem::host::channels_last
