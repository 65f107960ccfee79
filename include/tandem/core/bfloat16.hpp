// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BFloat16: the upper half of a float, as storage; arithmetic is done in float.

#include <concepts>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/round_to_odd.hpp>

namespace tandem {

/// 1 sign bit, 8 exponent bits, 7 fraction bits; the same bits as CUDA's __nv_bfloat16.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest, ties to even; a NaN stays one.
  TANDEM_HOST_DEVICE explicit constexpr BFloat16(float value) : bits{rounded(value)} {}
  /// The same of a double, rounded once.
  template <std::same_as<double> Double>
  TANDEM_HOST_DEVICE explicit constexpr BFloat16(Double value) : BFloat16{round_to_odd(value)} {}
  TANDEM_HOST_DEVICE explicit constexpr operator float() const {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
  TANDEM_HOST_DEVICE explicit constexpr operator double() const {
    return static_cast<double>(static_cast<float>(*this));
  }

  /// One rounding; what reductions of 16-bit messages need.
  TANDEM_HOST_DEVICE friend constexpr BFloat16 operator+(BFloat16 a, BFloat16 b) {
    return BFloat16{static_cast<float>(a) + static_cast<float>(b)};
  }
  TANDEM_HOST_DEVICE friend constexpr bool operator>(BFloat16 a, BFloat16 b) {
    return static_cast<float>(a) > static_cast<float>(b);
  }
  TANDEM_HOST_DEVICE friend constexpr bool operator==(BFloat16 a, BFloat16 b) {
    return static_cast<float>(a) == static_cast<float>(b);
  }

 private:
  TANDEM_HOST_DEVICE static constexpr std::uint16_t rounded(float value) {
    auto const word = __builtin_bit_cast(std::uint32_t, value);
    if ((word & 0x7FFFFFFFU) > 0x7F800000U) {
      return static_cast<std::uint16_t>((word >> 16) | 0x40U);
    }
    return static_cast<std::uint16_t>((word + 0x7FFFU + ((word >> 16) & 1U)) >> 16);
  }
};

static_assert(sizeof(BFloat16) == 2);

}  // namespace tandem
