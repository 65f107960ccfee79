// SPDX-License-Identifier: Apache-2.0
#include <tandem/core/bfloat16.hpp>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include <doctest/doctest.h>

namespace bfloat16_test {

using tandem::BFloat16;

static_assert(std::is_trivially_copyable_v<BFloat16>);
static_assert(!std::is_convertible_v<float, BFloat16> && !std::is_convertible_v<BFloat16, float>);
static_assert(BFloat16{1.0F}.bits == 0x3F80 && BFloat16{-2.0F}.bits == 0xC000);
static_assert(static_cast<float>(BFloat16{0.5F}) == 0.5F);
static_assert(BFloat16{}.bits == 0);

BFloat16 from_bits(int bits) {
  BFloat16 x;
  x.bits = static_cast<std::uint16_t>(bits);
  return x;
}

/// The value of a finite pattern, from the definition of the format.
double value_of(int bits) {
  int const exponent = (bits >> 7) & 0xFF;
  double const fraction = bits & 0x7F;
  double const magnitude =
      exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

bool is_nan(std::uint16_t bits) { return (bits & 0x7F80) == 0x7F80 && (bits & 0x7F) != 0; }

TEST_CASE("every pattern of a BFloat16 is the number that its format says, and comes back") {
  int wrong = 0;
  for (int bits = 0; bits < 0x10000; ++bits) {
    auto const value = static_cast<float>(from_bits(bits));
    if ((bits & 0x7F80) != 0x7F80) {
      wrong += static_cast<double>(value) != value_of(bits);
      wrong += std::signbit(value) != ((bits & 0x8000) != 0);
      wrong += BFloat16{value}.bits != bits;
    } else if ((bits & 0x7F) == 0) {
      wrong += !std::isinf(value) || (value < 0) != ((bits & 0x8000) != 0);
      wrong += BFloat16{value}.bits != bits;
    } else {
      wrong += !std::isnan(value) || std::signbit(value) != ((bits & 0x8000) != 0);
      wrong += BFloat16{value}.bits != (bits | 0x40);  // quiet, with its payload
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("between two neighbours a BFloat16 rounds to the nearer, from the middle to the even") {
  int wrong = 0;
  for (int bits = 0; bits < 0x7F80; ++bits) {
    // The neighbour of the largest is 2¹²⁸, which is infinity. All middles are floats.
    double const above = bits == 0x7F7F ? std::ldexp(1.0, 128) : value_of(bits + 1);
    auto const middle = static_cast<float>((value_of(bits) + above) / 2);
    int const even = bits % 2 == 0 ? bits : bits + 1;
    for (int const sign : {0, 0x8000}) {
      float const s = sign != 0 ? -1.0F : 1.0F;
      wrong += BFloat16{s * middle}.bits != (even | sign);
      wrong += BFloat16{s * std::nextafter(middle, 0.0F)}.bits != (bits | sign);
      wrong += BFloat16{s * std::nextafter(middle, INFINITY)}.bits != ((bits + 1) | sign);
      // Doubles that are this middle once they are floats are rounded once all the same.
      double const d = static_cast<double>(middle);
      wrong += BFloat16{s * d}.bits != (even | sign);
      wrong += BFloat16{s * std::nextafter(d, 0.0)}.bits != (bits | sign);
      wrong += BFloat16{s * std::nextafter(d, INFINITY)}.bits != ((bits + 1) | sign);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a double becomes a BFloat16 at its ends, too, and comes back") {
  CHECK(BFloat16{1e300}.bits == BFloat16{INFINITY}.bits);
  CHECK(BFloat16{-1e300}.bits == BFloat16{-INFINITY}.bits);
  CHECK(BFloat16{double{INFINITY}}.bits == BFloat16{INFINITY}.bits);
  CHECK(BFloat16{1e-300}.bits == 0);
  CHECK(BFloat16{-1e-300}.bits == 0x8000);
  CHECK(is_nan(BFloat16{std::numeric_limits<double>::quiet_NaN()}.bits));
  CHECK(static_cast<double>(BFloat16{0.375}) == 0.375);
}

TEST_CASE("a BFloat16 overflows to infinity, keeps the sign of zero, and keeps a NaN") {
  using Limits = std::numeric_limits<float>;
  CHECK(BFloat16{Limits::max()}.bits == 0x7F80);
  CHECK(BFloat16{-Limits::infinity()}.bits == 0xFF80);
  CHECK(BFloat16{Limits::denorm_min()}.bits == 0);
  CHECK(BFloat16{-0.0F}.bits == 0x8000);
  CHECK(is_nan(BFloat16{Limits::quiet_NaN()}.bits));
  CHECK(is_nan(BFloat16{Limits::signaling_NaN()}.bits));
  // A NaN whose payload lies below the bits that are kept.
  CHECK(is_nan(BFloat16{__builtin_bit_cast(float, 0x7F800001U)}.bits));
  CHECK(BFloat16{__builtin_bit_cast(float, 0xFF800001U)}.bits == 0xFFC0);
}

}  // namespace bfloat16_test
