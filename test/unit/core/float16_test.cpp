// SPDX-License-Identifier: Apache-2.0
#include <tandem/core/float16.hpp>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include <doctest/doctest.h>

namespace float16_test {

using tandem::Float16;

static_assert(std::is_trivially_copyable_v<Float16>);
static_assert(!std::is_convertible_v<float, Float16> && !std::is_convertible_v<Float16, float>);
static_assert(Float16{1.0F}.bits == 0x3C00 && Float16{-2.0F}.bits == 0xC000);
static_assert(static_cast<float>(Float16{0.5F}) == 0.5F);
static_assert(Float16{}.bits == 0);

Float16 from_bits(int bits) {
  Float16 x;
  x.bits = static_cast<std::uint16_t>(bits);
  return x;
}

/// The value of a finite pattern, from the definition of the format.
double value_of(int bits) {
  int const exponent = (bits >> 10) & 0x1F;
  double const fraction = bits & 0x3FF;
  double const magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

bool is_nan(std::uint16_t bits) { return (bits & 0x7C00) == 0x7C00 && (bits & 0x3FF) != 0; }

TEST_CASE("every pattern of a Float16 is the number that IEEE 754 says, and comes back") {
  int wrong = 0;
  for (int bits = 0; bits < 0x10000; ++bits) {
    auto const value = static_cast<float>(from_bits(bits));
    if ((bits & 0x7C00) != 0x7C00) {
      wrong += static_cast<double>(value) != value_of(bits);
      wrong += std::signbit(value) != ((bits & 0x8000) != 0);
      wrong += Float16{value}.bits != bits;
    } else if ((bits & 0x3FF) == 0) {
      wrong += !std::isinf(value) || (value < 0) != ((bits & 0x8000) != 0);
      wrong += Float16{value}.bits != bits;
    } else {
      wrong += !std::isnan(value) || std::signbit(value) != ((bits & 0x8000) != 0);
      wrong += Float16{value}.bits != (bits | 0x200);  // quiet, with its payload
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("between two neighbours a Float16 rounds to the nearer, from the middle to the even") {
  int wrong = 0;
  for (int bits = 0; bits < 0x7C00; ++bits) {
    // The neighbour of the largest is 2¹⁶, which is infinity. All middles are floats.
    double const above = bits == 0x7BFF ? 65536.0 : value_of(bits + 1);
    auto const middle = static_cast<float>((value_of(bits) + above) / 2);
    int const even = bits % 2 == 0 ? bits : bits + 1;
    for (int const sign : {0, 0x8000}) {
      float const s = sign != 0 ? -1.0F : 1.0F;
      wrong += Float16{s * middle}.bits != (even | sign);
      wrong += Float16{s * std::nextafter(middle, 0.0F)}.bits != (bits | sign);
      wrong += Float16{s * std::nextafter(middle, INFINITY)}.bits != ((bits + 1) | sign);
      // Doubles that are this middle once they are floats are rounded once all the same.
      double const d = static_cast<double>(middle);
      wrong += Float16{s * d}.bits != (even | sign);
      wrong += Float16{s * std::nextafter(d, 0.0)}.bits != (bits | sign);
      wrong += Float16{s * std::nextafter(d, INFINITY)}.bits != ((bits + 1) | sign);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a double becomes a Float16 at its ends, too, and comes back") {
  CHECK(Float16{1e300}.bits == Float16{INFINITY}.bits);
  CHECK(Float16{-1e300}.bits == Float16{-INFINITY}.bits);
  CHECK(Float16{double{INFINITY}}.bits == Float16{INFINITY}.bits);
  CHECK(Float16{1e-300}.bits == 0);
  CHECK(Float16{-1e-300}.bits == 0x8000);
  CHECK(is_nan(Float16{std::numeric_limits<double>::quiet_NaN()}.bits));
  CHECK(static_cast<double>(Float16{0.375}) == 0.375);
}

TEST_CASE("a Float16 overflows to infinity, underflows to a zero of the sign, and keeps a NaN") {
  using Limits = std::numeric_limits<float>;
  CHECK(Float16{65519.996F}.bits == 0x7BFF);
  CHECK(Float16{65520.0F}.bits == 0x7C00);
  CHECK(Float16{65536.0F}.bits == 0x7C00);
  CHECK(Float16{Limits::max()}.bits == 0x7C00);
  CHECK(Float16{-Limits::infinity()}.bits == 0xFC00);
  CHECK(Float16{Limits::denorm_min()}.bits == 0);
  CHECK(Float16{-Limits::min()}.bits == 0x8000);
  CHECK(Float16{0x1p-25F}.bits == 0);
  CHECK(Float16{0x1.000002p-25F}.bits == 1);
  CHECK(is_nan(Float16{Limits::quiet_NaN()}.bits));
  CHECK(is_nan(Float16{Limits::signaling_NaN()}.bits));
  // A NaN whose payload lies below the bits that are kept.
  CHECK(is_nan(Float16{__builtin_bit_cast(float, 0x7F800001U)}.bits));
  CHECK(Float16{__builtin_bit_cast(float, 0xFF800001U)}.bits == 0xFE00);
}

}  // namespace float16_test
