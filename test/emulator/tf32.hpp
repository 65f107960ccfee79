// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// rounded_to_tf32(): what a tensor core reads of a float.

#include <bit>
#include <cmath>
#include <cstdint>

namespace cuda_emulator {

/// To 10 fraction bits, to nearest, ties to even.
inline float rounded_to_tf32(float x) {
  auto const word = std::bit_cast<std::uint32_t>(x);
  return std::isfinite(x) ? std::bit_cast<float>((word + 0xFFFU + ((word >> 13) & 1U)) & ~0x1FFFU)
                          : x;
}

}  // namespace cuda_emulator
