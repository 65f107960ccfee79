// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Float16: IEEE 754 half precision, as storage and on the wire; arithmetic is done in float.

#include <concepts>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/round_to_odd.hpp>

namespace tandem {

/// 1 sign bit, 5 exponent bits, 10 fraction bits; the same bits as CUDA's __half.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  /// Rounds to nearest, ties to even, to subnormals too; from 65520 on to infinity; a NaN stays
  /// one.
  TANDEM_HOST_DEVICE explicit constexpr Float16(float value) : bits{rounded(value)} {}
  /// The same of a double, rounded once.
  template <std::same_as<double> Double>
  TANDEM_HOST_DEVICE explicit constexpr Float16(Double value) : Float16{round_to_odd(value)} {}
  TANDEM_HOST_DEVICE explicit constexpr operator float() const {
    std::uint32_t const sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    std::uint32_t const exponent = (bits >> 10) & 0x1FU;
    std::uint32_t const fraction = bits & 0x3FFU;
    if (exponent == 0) {  // zero or subnormal: fraction times 2⁻²⁴, exact
      float const magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, magnitude) | sign);
    }
    std::uint32_t const biased = exponent == 31 ? 255 : exponent + 112;
    return __builtin_bit_cast(float, sign | (biased << 23) | (fraction << 13));
  }
  TANDEM_HOST_DEVICE explicit constexpr operator double() const {
    return static_cast<double>(static_cast<float>(*this));
  }

  /// One rounding; what reductions of 16-bit messages need.
  TANDEM_HOST_DEVICE friend constexpr Float16 operator+(Float16 a, Float16 b) {
    return Float16{static_cast<float>(a) + static_cast<float>(b)};
  }
  TANDEM_HOST_DEVICE friend constexpr bool operator>(Float16 a, Float16 b) {
    return static_cast<float>(a) > static_cast<float>(b);
  }
  TANDEM_HOST_DEVICE friend constexpr bool operator==(Float16 a, Float16 b) {
    return static_cast<float>(a) == static_cast<float>(b);
  }

 private:
  TANDEM_HOST_DEVICE static constexpr std::uint16_t rounded(float value) {
    auto const word = __builtin_bit_cast(std::uint32_t, value);
    std::uint32_t const sign = (word >> 16) & 0x8000U;
    std::uint32_t const magnitude = word & 0x7FFFFFFFU;
    std::uint32_t result = 0;
    if (magnitude > 0x7F800000U) {  // a NaN: quiet, with the upper bits of its payload
      result = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
    } else if (magnitude >= 0x47800000U) {  // 2¹⁶ and above
      result = 0x7C00U;
    } else if (magnitude >= 0x38800000U) {  // normal, from 2⁻¹⁴ on; may carry into infinity
      std::uint32_t const rebiased = magnitude - (112U << 23);
      result = (rebiased + 0xFFFU + ((rebiased >> 13) & 1U)) >> 13;
    } else if (magnitude >= 0x33000000U) {  // from 2⁻²⁵ on, half the smallest subnormal
      std::uint32_t const significand = (magnitude & 0x7FFFFFU) | 0x800000U;
      std::uint32_t const shift = 126U - (magnitude >> 23);  // to units of 2⁻²⁴
      std::uint32_t const half = 1U << (shift - 1);
      result = (significand + half - 1 + ((significand >> shift) & 1U)) >> shift;
    }
    return static_cast<std::uint16_t>(sign | result);
  }
};

static_assert(sizeof(Float16) == 2);

}  // namespace tandem
