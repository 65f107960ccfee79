// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// exponential(): e to the power of each lane of a Floats, of numbers that are not large.

#include <tandem/kernels/channels_last/vectors.hpp>

namespace tandem::host::channels_last {

/// e^x within 1.1 ulp for x in [-87.3, 88]; 0 below, as for -infinity; a NaN stays one.
///
/// Cost:   14 operations on 16 lanes, no table.
/// @pre    x <= 88
/// Source: Moshier, Cephes, expf (its polynomial on ±ln 2 / 2)
[[gnu::always_inline]] inline Floats exponential(Floats const& x) {
  Floats const round{12582912.0F};  // 1.5 · 2²³: a sum with it has the nearest integer as its bits
  Floats const shifted = multiply_add(x, Floats{1.44269504F}, round);
  Floats const n = shifted - round;
  Floats r = multiply_add(n, Floats{-0.693359375F}, x);  // x - n ln 2, in two parts
  r = multiply_add(n, Floats{2.12194440e-4F}, r);
  Floats y = multiply_add(r, Floats{1.9875691500e-4F}, Floats{1.3981999507e-3F});
  y = multiply_add(r, y, Floats{8.3334519073e-3F});
  y = multiply_add(r, y, Floats{4.1665795894e-2F});
  y = multiply_add(r, y, Floats{1.6666665459e-1F});
  y = multiply_add(r, y, Floats{5.0000001201e-1F});
  y = multiply_add(r * r, y, r) + Floats{1.0F};
  Floats power;  // 2ⁿ
  power.v = (detail::FloatVector)(((detail::WordVector)shifted.v << 23) + 0x3F800000U);
  return select(Floats{-87.3F} > x, Floats{0.0F}, y * power);
}

}  // namespace tandem::host::channels_last
