// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sums of doubles without rounding, the same whatever their order and whoever adds: a sum is a row
/// of lanes that are added one by one.
///
/// A lane is a double that holds a whole number of units of its own, so that up to 2^29 rows add up
/// without rounding, by anything that adds doubles. What is no number stays in lane 0.

#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/finite.hpp>

namespace tandem {

/// Bits of a number that a lane takes; its unit is 2^(exact_bits * lane - 1074).
inline constexpr int exact_bits = 24;
/// They hold every double: 2^-1074 is the least, and all are below 2^1024.
inline constexpr int exact_lanes = (1074 + 1024 + exact_bits - 1) / exact_bits;

namespace detail {

/// The place of the last bit of a finite number's mantissa, in bits from 2^-1074 on.
TANDEM_HOST_DEVICE constexpr int exact_place(double value) {
  auto const exponent =
      static_cast<int>(__builtin_bit_cast(std::uint64_t, value) >> 52 & std::uint64_t{0x7FF});
  return exponent > 0 ? exponent - 1 : 0;
}

/// A finite number's mantissa, with the bit that is not stored.
TANDEM_HOST_DEVICE constexpr std::uint64_t exact_mantissa(std::uint64_t bits) {
  constexpr std::uint64_t one = 1;
  std::uint64_t const above = (bits >> 52 & 0x7FF) > 0 ? one << 52 : 0;  // subnormals have no more
  return (bits & ((one << 52) - 1)) | above;
}

}  // namespace detail

/// What of @p value is in lane @p lane.
TANDEM_HOST_DEVICE constexpr double exact_part(double value, int lane) {
  if (!is_finite(value)) {
    return lane == 0 ? value : 0.0;
  }
  constexpr std::uint64_t one = 1;
  auto const bits = __builtin_bit_cast(std::uint64_t, value);
  std::uint64_t const mantissa = detail::exact_mantissa(bits);
  int const shift = detail::exact_place(value) - exact_bits * lane;
  if (shift >= exact_bits || shift <= -53) {
    return 0.0;
  }
  std::uint64_t const placed = shift >= 0 ? mantissa << shift : mantissa >> -shift;
  auto const part = static_cast<double>(placed & ((one << exact_bits) - 1));
  return bits >> 63 != 0 ? -part : part;
}

namespace detail {

/// Adds @p units times 2^(place - 1074) to a row.
TANDEM_HOST_DEVICE constexpr void add_units(std::uint64_t units, int place, bool negative,
                                            double* lanes) {
  constexpr std::uint64_t digit_mask = (std::uint64_t{1} << exact_bits) - 1;
  int const shift = place % exact_bits;
  double* lane = lanes + place / exact_bits;
  std::uint64_t digit = units << shift & digit_mask;
  for (std::uint64_t rest = units >> (exact_bits - shift);; rest >>= exact_bits) {
    auto const part = static_cast<double>(digit);
    *lane += negative ? -part : part;
    if (rest == 0) {
      return;
    }
    digit = rest & digit_mask;
    ++lane;
  }
}

}  // namespace detail

/// Adds a number to a row. Cost: the lanes that its mantissa is in, at most four.
TANDEM_HOST_DEVICE constexpr void add_exactly(double value, double* lanes) {
  if (!is_finite(value)) {
    lanes[0] += value;
    return;
  }
  auto const bits = __builtin_bit_cast(std::uint64_t, value);
  detail::add_units(detail::exact_mantissa(bits), detail::exact_place(value), bits >> 63 != 0,
                    lanes);
}

/// One lane of the row of @p count numbers that are @p stride apart.
TANDEM_HOST_DEVICE constexpr double exact_lane(double const* values, int count, int stride,
                                               int lane) {
  double sum = 0.0;
  for (int i = 0; i < count; ++i) {
    sum += exact_part(values[std::int64_t{i} * stride], lane);
  }
  return sum;
}

/// The sum that a row holds, rounded once, to nearest: infinite where it is beyond the doubles, and
/// what the sum of its infinities and NaNs is where it has any.
TANDEM_HOST_DEVICE inline double exact_total(double const* lanes) {
  if (!is_finite(lanes[0])) {
    return lanes[0];
  }
  int first = exact_lanes;  // of those that are not 0
  int last = -1;
  for (int lane = 0; lane < exact_lanes; ++lane) {
    if (lanes[lane] != 0.0) {
      first = lane < first ? lane : first;
      last = lane;
    }
  }
  std::int64_t carry = 0;
  for (int lane = first; lane <= last; ++lane) {
    carry = (carry + static_cast<std::int64_t>(lanes[lane])) >> exact_bits;
  }
  bool const negative = carry < 0;
  // Its magnitude, digit by digit from the lowest: the last 128 bits, and whether any went before.
  constexpr std::uint64_t digit_mask = (std::uint64_t{1} << exact_bits) - 1;
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool rest = false;
  int top = 0;  // the highest digit that is not 0, and what was there with it
  std::uint64_t top_digit = 0;
  std::uint64_t top_high = 0;
  std::uint64_t top_low = 0;
  bool top_rest = false;
  carry = 0;
  for (int lane = first; lane <= last || carry != 0; ++lane) {
    auto const own = lane <= last ? static_cast<std::int64_t>(lanes[lane]) : std::int64_t{0};
    carry += negative ? -own : own;
    std::uint64_t const digit = static_cast<std::uint64_t>(carry) & digit_mask;
    carry >>= exact_bits;
    rest = rest || (low & digit_mask) != 0;
    low = low >> exact_bits | high << (64 - exact_bits);
    high = high >> exact_bits | digit << (64 - exact_bits);
    if (digit != 0) {
      top = lane;
      top_digit = digit;
      top_high = high;
      top_low = low;
      top_rest = rest;
    }
  }
  if (top_digit == 0) {
    return 0.0;
  }
  // 64 bits from the first that is set; the last of them says whether any is set behind them.
  auto const as_double = __builtin_bit_cast(std::uint64_t, static_cast<double>(top_digit));
  int const zeros = exact_bits - 1 - (static_cast<int>(as_double >> 52) - 1023);
  if (zeros > 0) {
    top_high = top_high << zeros | top_low >> (64 - zeros);
    top_low <<= zeros;
  }
  top_high |= (top_rest || top_low != 0) ? 1 : 0;
  using std::ldexp;
  double const magnitude =
      ldexp(static_cast<double>(top_high), exact_bits * (top + 1) - 64 - 1074 - zeros);
  return negative ? -magnitude : magnitude;
}

}  // namespace tandem
