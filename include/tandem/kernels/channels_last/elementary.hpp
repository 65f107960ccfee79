// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The elementary functions of kernels/functors/elementary.hpp for Floats, of polynomials.
///
/// Errors: the largest seen at one float of seven, with and without fused multiply-adds, against
/// the C library in double (test/unit/kernels/vector_elementary_test.cpp checks fewer); an ulp is
/// 2⁻²³ of the power of two at or below the exact result.

#include <cstddef>
#include <cstdint>

#include <tandem/kernels/channels_last/vectors.hpp>
#include <tandem/kernels/functors/elementary.hpp>

namespace tandem::host::channels_last {

namespace detail {

[[gnu::always_inline]] inline Floats magnitude(Floats const& x) {
  Floats result;
  result.v = reinterpret_cast<FloatVector>(reinterpret_cast<WordVector>(x.v) & 0x7FFFFFFFU);
  return result;
}
[[gnu::always_inline]] inline Floats negative(Floats const& x) {
  Floats result;
  result.v = reinterpret_cast<FloatVector>(reinterpret_cast<WordVector>(x.v) ^ 0x80000000U);
  return result;
}

/// @p x with the sign of @p sign; x is not negative.
[[gnu::always_inline]] inline Floats with_sign(Floats const& x, Floats const& sign) {
  Floats result;
  result.v = reinterpret_cast<FloatVector>(reinterpret_cast<WordVector>(x.v) |
                                           (reinterpret_cast<WordVector>(sign.v) & 0x80000000U));
  return result;
}

/// c[0] + c[1] x + … by Horner's rule.
template <std::size_t N>
[[gnu::always_inline]] inline Floats polynomial(Floats const& x, float const (&c)[N]) {
  Floats result{c[N - 1]};
  for (std::size_t i = N - 1; i-- > 0;) {
    result = multiply_add(result, x, Floats{c[i]});
  }
  return result;
}

}  // namespace detail

/// exp(x); a NaN stays one. 0 below -87.7 and infinity above 88.3, where floats end at -103.3 and
/// 88.7. Error from -87 to 88.3: 1.2 ulp.
/// Source: Cephes, expf (the polynomial)
[[gnu::always_inline]] inline Floats exponential(Floats const& exponent) {
  Floats const x = max(min(exponent, Floats{89.0F}), Floats{-88.0F});
  Floats const magic{12582912.0F};  // 1.5 2²³: an addition rounds to an integer, in the low bits
  Floats const shifted = multiply_add(x, Floats{1.44269504F}, magic);
  Floats const n = shifted - magic;
  Floats r = multiply_add(n, Floats{-0.693359375F}, x);  // log 2 in two parts
  r = multiply_add(n, Floats{2.12194440e-4F}, r);
  constexpr float c[] = {5.0000001201e-1F, 1.6666665459e-1F, 4.1665795894e-2F,
                         8.3334519073e-3F, 1.3981999507e-3F, 1.9875691500e-4F};
  Floats const power =
      multiply_add(multiply_add(detail::polynomial(r, c), r, Floats{1.0F}), r, Floats{1.0F});
  Floats scale;  // 2ⁿ; 0 for n = -127 and infinity for n = 128
  scale.v = reinterpret_cast<detail::FloatVector>(
      (reinterpret_cast<detail::WordVector>(shifted.v) << 23) + 0x3F800000U);
  return power * scale;
}

/// 1 / (1 + exp(-x)). Error for x above -87: 2.5 ulp.
[[gnu::always_inline]] inline Floats logistic(Floats const& x) {
  return Floats{1.0F} / (Floats{1.0F} + exponential(detail::negative(x)));
}

/// tanh(x). Error: 1.4 ulp.
/// Source: Cephes, tanhf (the polynomial, for |x| < 0.625)
[[gnu::always_inline]] inline Floats hyperbolic_tangent(Floats const& x) {
  Floats const a = detail::magnitude(x);
  Floats const one{1.0F};
  Floats const distant = one - Floats{2.0F} / (exponential(a + a) + one);
  constexpr float c[] = {-3.33332819422e-1F, 1.33314422036e-1F, -5.37397155531e-2F,
                         2.06390887954e-2F, -5.70498872745e-3F};
  Floats const square = x * x;
  Floats const close = multiply_add(detail::polynomial(square, c) * square, a, a);
  return detail::with_sign(select(Floats{0.625F} > a, close, distant), x);
}

/// The standard normal distribution at x. Errors: of the cumulative one 2.1 2⁻²³, and 12 ulp where
/// x is above -5 (its exponent is rounded, hence more and more for smaller x); of the density 0.4
/// 2⁻²³. Of x times it, a GELU, 2⁻²³ for x < 1.
///
/// With a = |x|, exp(-a² / 2) times a polynomial in 1 / (1 + 0.3 a) is the smaller tail; its
/// coefficients minimise the largest relative error on [0, 13.5], which is 5.8e-8 (Remez).
[[gnu::always_inline]] inline elementary::Normal<Floats> normal(Floats const& x) {
  Floats const one{1.0F};
  Floats const t = one / multiply_add(detail::magnitude(x), Floats{0.3F}, one);
  Floats const power = exponential(x * x * Floats{-0.5F});
  constexpr float c[] = {6.852875485e-6F, 0.1194930645F,  0.1218820481F,
                         0.09483300591F,  0.1421849864F,  -0.07599948283F,
                         0.2282172036F,   -0.1689519058F, 0.03833425584F};
  Floats const tail = power * detail::polynomial(t, c);
  return {select(Floats{0.0F} > x, tail, one - tail), power * Floats{0.398942280F}};
}

}  // namespace tandem::host::channels_last
