// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One element of each smooth activation and of its gradient, the same on every backend.
///
/// value(x) is y; gradient(kept, dy) is dx, where kept is y if `gradient_from_output`, else x. V is
/// float, double, or a backend's vector of floats that has the functions of elementary.hpp.

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/elementary.hpp>

namespace tandem {

/// x Φ(x), Φ the standard normal distribution: GELU by the error function.
/// Source: Hendrycks, Gimpel, arXiv:1606.08415, section 2
struct GeluFunction {
  static constexpr bool gradient_from_output = false;

  template <class V>
  TANDEM_HOST_DEVICE static V value(V const& x) {
    using elementary::normal;
    return x * normal(x).cumulative;
  }
  template <class V>
  TANDEM_HOST_DEVICE static V gradient(V const& x, V const& dy) {
    using elementary::normal;
    elementary::Normal<V> const at = normal(x);
    return dy * (at.cumulative + x * at.density);
  }
};

/// 0.5 x (1 + tanh u), u = sqrt(2 / pi) (x + 0.044715 x³), computed as x logistic(2 u), which is
/// the same number without cancellation. Source: as GeluFunction.
struct GeluTanhFunction {
  static constexpr bool gradient_from_output = false;

  template <class V>
  TANDEM_HOST_DEVICE static V value(V const& x) {
    using elementary::logistic;
    return x * logistic(twice_u(x));
  }
  template <class V>
  TANDEM_HOST_DEVICE static V gradient(V const& x, V const& dy) {
    using elementary::logistic;
    V const one = elementary::constant<V>(1);
    V const slope = elementary::constant<V>(twice_root) +
                    elementary::constant<V>(3 * 0.044715 * twice_root) * (x * x);
    V const s = logistic(twice_u(x));
    return dy * (s + x * (s * (one - s)) * slope);
  }

 private:
  static constexpr double twice_root = 2 * 0.79788456080286536;  // 2 sqrt(2 / pi)

  template <class V>
  TANDEM_HOST_DEVICE static V twice_u(V const& x) {
    return x * (elementary::constant<V>(twice_root) +
                elementary::constant<V>(0.044715 * twice_root) * (x * x));
  }
};

/// x logistic(x).
struct SiluFunction {
  static constexpr bool gradient_from_output = false;

  template <class V>
  TANDEM_HOST_DEVICE static V value(V const& x) {
    using elementary::logistic;
    return x * logistic(x);
  }
  template <class V>
  TANDEM_HOST_DEVICE static V gradient(V const& x, V const& dy) {
    using elementary::logistic;
    V const one = elementary::constant<V>(1);
    V const s = logistic(x);
    return dy * (s * (one + x * (one - s)));
  }
};

/// logistic(x).
struct SigmoidFunction {
  static constexpr bool gradient_from_output = true;

  template <class V>
  TANDEM_HOST_DEVICE static V value(V const& x) {
    using elementary::logistic;
    return logistic(x);
  }
  template <class V>
  TANDEM_HOST_DEVICE static V gradient(V const& y, V const& dy) {
    return dy * (y * (elementary::constant<V>(1) - y));
  }
};

struct TanhFunction {
  static constexpr bool gradient_from_output = true;

  template <class V>
  TANDEM_HOST_DEVICE static V value(V const& x) {
    using elementary::hyperbolic_tangent;
    return hyperbolic_tangent(x);
  }
  template <class V>
  TANDEM_HOST_DEVICE static V gradient(V const& y, V const& dy) {
    return dy * (elementary::constant<V>(1) - y * y);
  }
};

/// gate logistic(gate) up: SiLU of one half of a row times the other half.
/// Source: Shazeer, arXiv:2002.05202
struct SwiGluFunction {
  template <class V>
  struct Gradient {
    V gate;
    V up;
  };

  template <class V>
  TANDEM_HOST_DEVICE static V value(V const& gate, V const& up) {
    return SiluFunction::value(gate) * up;
  }
  template <class V>
  TANDEM_HOST_DEVICE static Gradient<V> gradient(V const& gate, V const& up, V const& dy) {
    return {SiluFunction::gradient(gate, dy * up), dy * SiluFunction::value(gate)};
  }
};

}  // namespace tandem
