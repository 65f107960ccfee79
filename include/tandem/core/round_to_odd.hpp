// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// round_to_odd: a double as a float that can be rounded again, as if it were for the first time.

#include <cstdint>

#include <tandem/core/config.hpp>

namespace tandem {

/// @p value itself if it is a float, else of its two neighbours the one whose last bit is set.
/// Rounded to 22 bits or fewer, that gives what rounding @p value once gives: the last bit says
/// that something was behind it. A NaN stays one, what is beyond the floats becomes the largest.
/// Source: Boldo and Melquiond, "When double rounding is odd", 2005.
TANDEM_HOST_DEVICE constexpr float round_to_odd(double value) {
  constexpr double largest = 0x1.fffffep127;
  if (value != value || value - value != 0.0) {  // a NaN, an infinity
    return static_cast<float>(value);
  }
  if (value > largest || value < -largest) {
    return value > 0.0 ? 0x1.fffffep127F : -0x1.fffffep127F;
  }
  auto const nearest = static_cast<float>(value);
  auto const back = static_cast<double>(nearest);
  auto const word = __builtin_bit_cast(std::uint32_t, nearest);
  if (back == value || (word & 1U) != 0) {
    return nearest;
  }
  bool const beyond = value > 0.0 ? back > value : back < value;  // nearest is larger in magnitude
  return __builtin_bit_cast(float, beyond ? word - 1U : word + 1U);
}

}  // namespace tandem
