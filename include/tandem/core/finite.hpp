// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// is_finite: whether a number is one, also under -ffast-math.

#include <cstdint>

#include <tandem/core/config.hpp>

namespace tandem {

/// False for infinities and NaNs. By the bits of the exponent: -ffast-math lets the compiler take
/// it for granted that std::isfinite(x) is true, and x != x false.
TANDEM_HOST_DEVICE constexpr bool is_finite(double x) {
  constexpr std::uint64_t exponent = 0x7FF00000'00000000;
  return (__builtin_bit_cast(std::uint64_t, x) & exponent) != exponent;
}

}  // namespace tandem
