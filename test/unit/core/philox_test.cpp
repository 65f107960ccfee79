// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include <tandem/core/philox.hpp>

namespace philox_test {

using tandem::Random4;
using tandem::RandomUse;

constexpr bool same(Random4 const& r, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                    std::uint32_t d) {
  return r.word[0] == a && r.word[1] == b && r.word[2] == c && r.word[3] == d;
}

/// Philox4x32-10 with a plain key: the use is folded into bits 24 to 31 of the seed, so it is taken
/// out again here.
constexpr Random4 plain(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  auto const use = static_cast<std::uint32_t>(RandomUse::user);
  return tandem::philox(key ^ (std::uint64_t{use} << 24), RandomUse::user, low, high);
}

// The known answers of Random123, file kat_vectors, lines "philox4x32 10".
static_assert(same(plain(0, 0, 0), 0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U));
static_assert(same(plain(~0ULL, ~0ULL, ~0ULL), 0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU));
static_assert(same(plain(0x299f31d0a4093822ULL, 0x85a308d3243f6a88ULL, 0x0370734413198a2eULL),
                   0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U));

TEST_CASE("run time and constant evaluation draw the same numbers") {
  constexpr Random4 expected = tandem::philox(42, RandomUse::dropout, 7, 9);
  std::uint64_t volatile seed = 42;
  Random4 const r = tandem::philox(seed, RandomUse::dropout, 7, 9);
  CHECK(same(r, expected.word[0], expected.word[1], expected.word[2], expected.word[3]));
}

TEST_CASE("uses, seeds and counters have numbers of their own") {
  Random4 const r = tandem::philox(1, RandomUse::dropout, 2, 3);
  auto const differs = [&](Random4 const& s) {
    return !same(s, r.word[0], r.word[1], r.word[2], r.word[3]);
  };
  CHECK(differs(tandem::philox(1, RandomUse::order, 2, 3)));
  CHECK(differs(tandem::philox(2, RandomUse::dropout, 2, 3)));
  CHECK(differs(tandem::philox(1ULL << 40, RandomUse::dropout, 2, 3)));
  CHECK(differs(tandem::philox(1, RandomUse::dropout, 3, 3)));
  CHECK(differs(tandem::philox(1, RandomUse::dropout, 2, 4)));
}

TEST_CASE("uniform stays in [0, 1)") {
  CHECK(tandem::uniform(0) == 0.0F);
  CHECK(tandem::uniform(std::numeric_limits<std::uint32_t>::max()) < 1.0F);
  CHECK(tandem::uniform(0x80000000U) == 0.5F);
}

TEST_CASE("uniform has the mean and variance of its distribution") {
  constexpr int draws = 40000;
  double sum = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < draws; ++i) {
    double const x = tandem::uniform(tandem::philox(5, RandomUse::user, i, 0).word[0]);
    sum += x;
    squares += x * x;
  }
  double const mean = sum / draws;
  // Five standard deviations of the mean, sqrt(1 / 12 / 40000) = 0.00144, and of the variance,
  // sqrt((1 / 80 - 1 / 144) / 40000) = 0.00037.
  CHECK(std::abs(mean - 0.5) <= 0.0072);
  CHECK(std::abs(squares / draws - mean * mean - 1.0 / 12) <= 0.0019);
}

TEST_CASE("below reaches its ends and nothing beyond") {
  CHECK(tandem::below(0, 10) == 0);
  CHECK(tandem::below(std::numeric_limits<std::uint32_t>::max(), 10) == 9);
  CHECK(tandem::below(0x80000000U, 10) == 5);
  CHECK(tandem::below(12345, 1) == 0);
}

}  // namespace philox_test
