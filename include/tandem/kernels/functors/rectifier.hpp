// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rectify and RectifyGradient: one element of a ReLU, the same on every backend.

#include <tandem/core/config.hpp>

namespace tandem {

/// max(x, 0); a NaN stays a NaN.
struct Rectify {
  template <class T>
  TANDEM_HOST_DEVICE constexpr T operator()(T x) const {
    return x < T{0} ? T{0} : x;
  }
};

/// dy where y > 0, else 0; where y is a NaN the gradient passes, as in PyTorch.
struct RectifyGradient {
  template <class T>
  TANDEM_HOST_DEVICE constexpr T operator()(T y, T dy) const {
    return y <= T{0} ? T{0} : dy;
  }
};

}  // namespace tandem
