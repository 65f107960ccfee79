// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The elementary functions that activations are made of, for float and double, on every backend.
/// kernels/channels_last/elementary.hpp has the same of vectors.

#include <cmath>

#include <tandem/core/config.hpp>

namespace tandem::elementary {

TANDEM_HOST_DEVICE inline float exponential(float const& x) { return ::expf(x); }
TANDEM_HOST_DEVICE inline double exponential(double const& x) { return ::exp(x); }

TANDEM_HOST_DEVICE inline float hyperbolic_tangent(float const& x) { return ::tanhf(x); }
TANDEM_HOST_DEVICE inline double hyperbolic_tangent(double const& x) { return ::tanh(x); }

/// 1 / (1 + exp(-x)); 0 and 1 at the infinities.
TANDEM_HOST_DEVICE inline float logistic(float const& x) { return 1.0F / (1.0F + ::expf(-x)); }
TANDEM_HOST_DEVICE inline double logistic(double const& x) { return 1.0 / (1.0 + ::exp(-x)); }

/// Of the standard normal distribution at some x.
template <class V>
struct Normal {
  V cumulative;  ///< (1 + erf(x / sqrt 2)) / 2, without cancellation where x is negative
  V density;     ///< exp(-x² / 2) / sqrt(2 pi)
};

TANDEM_HOST_DEVICE inline Normal<float> normal(float const& x) {
  return {0.5F * ::erfcf(-0.707106781F * x), 0.398942280F * ::expf(-0.5F * x * x)};
}
TANDEM_HOST_DEVICE inline Normal<double> normal(double const& x) {
  return {0.5 * ::erfc(-0.70710678118654752 * x), 0.39894228040143268 * ::exp(-0.5 * x * x)};
}

}  // namespace tandem::elementary
