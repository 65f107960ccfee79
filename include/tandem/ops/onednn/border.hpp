// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Border: how samples and outputs cross between the user's arrays and the oneDNN Host backend.

#include <cstdint>

#include <tandem/core/shape.hpp>
#include <tandem/kernels/channels_last/layout.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

template <class Precision>
struct Border<BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  /// y (n, H, W, C) = x (n, C, H, W), rounded to T.
  static void load(host::Device& device, int n, Shape shape, P const* x, T* y) {
    host::channels_last::to_channels_last(device.team, n, channels(shape), pixels(shape), x, y);
  }
  /// The way back.
  static void store(host::Device& device, int n, Shape shape, T const* x, P* y) {
    host::channels_last::from_channels_last(device.team, n, channels(shape), pixels(shape), x, y);
  }

 private:
  static int channels(Shape shape) {
    return shape.rank == 3 ? shape[0] : static_cast<int>(shape.elements());
  }
  static std::int64_t pixels(Shape shape) { return shape.elements() / channels(shape); }
};

}  // namespace tandem
