// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The rectifier and its gradient, which needs the output only, so that a layer may work in place.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/rectifier.hpp>
#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y = max(x, 0); a NaN stays a NaN.
///
/// Shapes: x (n); y (n), which may be x.
/// Cost:   reads and writes n elements; bound by memory.
template <class T>
TANDEM_NOINLINE void relu_forward(Team& team, T const* x, T* y, std::int64_t n) {
  transform(team, n, [=](std::int64_t i) { y[i] = Rectify{}(x[i]); });
}

/// dx = dy where y > 0, else 0; where y is a NaN the gradient passes, as in PyTorch.
///
/// Shapes: y (n), the output of relu_forward; dy (n); dx (n), which may be dy.
/// Cost:   reads 2 n elements and writes n; bound by memory.
template <class T>
TANDEM_NOINLINE void relu_gradient(Team& team, T const* y, T const* dy, T* dx, std::int64_t n) {
  transform(team, n, [=](std::int64_t i) { dx[i] = RectifyGradient{}(y[i], dy[i]); });
}

}  // namespace tandem::host
