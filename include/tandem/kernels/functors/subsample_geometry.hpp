// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SubsampleGeometry: the sizes of the shortcut without parameters.

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>

namespace tandem {

/// The sizes of a subsampling shortcut: x (B, in_channels, in), y (B, out_channels, out()).
struct SubsampleGeometry {
  int in_channels = 0;
  int out_channels = 0;
  Extent2d in{};
  int stride = 1;

  /// Rows and columns 0, s, 2 s, … of the input: its extent divided by s, rounded up.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr Extent2d out() const {
    return {(in.height + stride - 1) / stride, (in.width + stride - 1) / stride};
  }

  /// Channels of zeros before the copied ones; an odd one more stands behind them.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int first() const {
    return (out_channels - in_channels) / 2;
  }
};

}  // namespace tandem
