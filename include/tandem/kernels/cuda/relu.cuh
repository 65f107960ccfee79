// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The rectifier and its gradient, which needs the output only, so that a layer may work in place.

#include <cstdint>

#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/kernels/functors/rectifier.hpp>

namespace tandem::cuda {

/// y = max(x, 0); a NaN stays a NaN.
///
/// Shapes: x (n); y (n), which may be x.
/// Cost:   reads and writes n elements; bound by memory.
template <class T>
void relu_forward(Stream const& stream, T const* x, T* y, std::int64_t n) {
  transform(stream, Rectify{}, x, y, n);
}

/// dx = dy where y > 0, else 0; where y is a NaN the gradient passes, as in PyTorch.
///
/// Shapes: y (n), the output of relu_forward; dy (n); dx (n), which may be dy.
/// Cost:   reads 2 n elements and writes n; bound by memory.
template <class T>
void relu_gradient(Stream const& stream, T const* y, T const* dy, T* dx, std::int64_t n) {
  transform(stream, RectifyGradient{}, y, dy, dx, n);
}

}  // namespace tandem::cuda
