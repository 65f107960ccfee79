// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One element of each smooth activation and of its gradient, the same on every backend.
///
/// value(x) is y; gradient(kept, dy) is dx, where kept is y if `gradient_from_output`, else x. V is
/// float or double; Host has the same formulas on vectors in kernels/channels_last/activations.hpp.

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/elementary.hpp>

namespace tandem {

/// x Φ(x), Φ the standard normal distribution: GELU by the error function.
/// Source: Hendrycks, Gimpel, arXiv:1606.08415, section 2
struct GeluFunction {
  static constexpr bool gradient_from_output = false;

  template <class V>
  TANDEM_HOST_DEVICE static V value(V const& x) {
    return x * elementary::normal(x).cumulative;
  }
  template <class V>
  TANDEM_HOST_DEVICE static V gradient(V const& x, V const& dy) {
    elementary::Normal<V> const at = elementary::normal(x);
    return dy * (at.cumulative + x * at.density);
  }
};

/// 0.5 x (1 + tanh u), u = sqrt(2 / pi) (x + 0.044715 x³), computed as x logistic(2 u), which is
/// the same number without cancellation. Source: as GeluFunction.
struct GeluTanhFunction {
  static constexpr bool gradient_from_output = false;
  static constexpr double linear = 2 * 0.79788456080286536;  ///< 2 u is linear x + cubic x³
  static constexpr double cubic = 0.044715 * linear;

  template <class V>
  TANDEM_HOST_DEVICE static V value(V const& x) {
    return x * elementary::logistic(twice_u(x));
  }
  template <class V>
  TANDEM_HOST_DEVICE static V gradient(V const& x, V const& dy) {
    V const slope = static_cast<V>(linear) + static_cast<V>(3 * cubic) * (x * x);
    V const s = elementary::logistic(twice_u(x));
    return dy * (s + x * (s * (V{1} - s)) * slope);
  }

 private:
  template <class V>
  TANDEM_HOST_DEVICE static V twice_u(V const& x) {
    return x * (static_cast<V>(linear) + static_cast<V>(cubic) * (x * x));
  }
};

/// x logistic(x).
struct SiluFunction {
  static constexpr bool gradient_from_output = false;

  template <class V>
  TANDEM_HOST_DEVICE static V value(V const& x) {
    return x * elementary::logistic(x);
  }
  template <class V>
  TANDEM_HOST_DEVICE static V gradient(V const& x, V const& dy) {
    V const s = elementary::logistic(x);
    return dy * (s * (V{1} + x * (V{1} - s)));
  }
};

/// logistic(x).
struct SigmoidFunction {
  static constexpr bool gradient_from_output = true;

  template <class V>
  TANDEM_HOST_DEVICE static V value(V const& x) {
    return elementary::logistic(x);
  }
  template <class V>
  TANDEM_HOST_DEVICE static V gradient(V const& y, V const& dy) {
    return dy * (y * (V{1} - y));
  }
};

struct TanhFunction {
  static constexpr bool gradient_from_output = true;

  template <class V>
  TANDEM_HOST_DEVICE static V value(V const& x) {
    return elementary::hyperbolic_tangent(x);
  }
  template <class V>
  TANDEM_HOST_DEVICE static V gradient(V const& y, V const& dy) {
    return dy * (V{1} - y * y);
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
