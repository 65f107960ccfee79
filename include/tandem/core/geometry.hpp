// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Window: how a kernel slides over an image; ConvolutionGeometry: the sizes of one convolution.
///
/// Plain values shared by layers (output shapes, costs) and by the kernels of every backend.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/shape.hpp>

namespace tandem {

/// Height and width of something on an image.
struct Extent2d {
  int height = 1;
  int width = 1;

  friend constexpr bool operator==(Extent2d const&, Extent2d const&) = default;
};

/// A window of `kernel` cells, `dilation` apart, that moves by `stride` over an image padded by
/// `padding` on each side.
struct Window {
  Extent2d kernel{};
  Extent2d stride{};
  Extent2d padding{0, 0};
  Extent2d dilation{};

  /// Rows and columns from its first cell to its last.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr Extent2d reach() const {
    return {(kernel.height - 1) * dilation.height + 1, (kernel.width - 1) * dilation.width + 1};
  }

  /// Number of positions over @p in, rounded down as PyTorch does; 0 or less: does not fit.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr Extent2d positions(Extent2d in) const {
    int const rows = in.height + 2 * padding.height - reach().height;
    int const columns = in.width + 2 * padding.width - reach().width;
    return {rows < 0 ? 0 : rows / stride.height + 1, columns < 0 ? 0 : columns / stride.width + 1};
  }

  friend constexpr bool operator==(Window const&, Window const&) = default;
};

/// What stands where an image is padded.
enum class PaddingMode : std::uint8_t { zeros, reflect, replicate, circular };

/// A window over each of `channels` maps: what pooling needs to know.
struct PoolGeometry {
  int channels = 0;
  Extent2d in{};
  Extent2d out{};
  Window window{};
};

/// One convolution: x (B, in_channels, in), weight (out_channels, in_channels / groups, kernel),
/// y (B, out_channels, out).
struct ConvolutionGeometry {
  int in_channels = 0;
  int out_channels = 0;
  int groups = 1;
  Extent2d in{};
  Extent2d out{};
  Window window{};

  /// Multiply-accumulates of one sample's forward pass.
  [[nodiscard]] constexpr std::int64_t macs() const {
    return std::int64_t{out_channels} * out.height * out.width * (in_channels / groups) *
           window.kernel.height * window.kernel.width;
  }
};

}  // namespace tandem
