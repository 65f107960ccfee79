// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PatchIndex: where the elements of a matrix of patches come from, channels-last; plain arithmetic
/// that any compiler takes, so that it is tested without a device.
///
/// A row of the matrix is a position (sample, row, column of the output); its columns are (group,
/// kernel row, kernel column, channel of the group), as the weights of a group lie in memory.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/cuda/divider.hpp>

namespace tandem::cuda {

/// The matrix of patches of one convolution, in units of `width` neighbouring channels.
class PatchIndex {
 public:
  PatchIndex() = default;
  /// @pre @p width divides in_channels / groups
  explicit constexpr PatchIndex(ConvolutionGeometry const& g, int width = 1)
      : geometry_{g},
        units_{g.in_channels / g.groups / width},
        units_of_group_{units_},
        kernel_width_{g.window.kernel.width},
        kernel_height_{g.window.kernel.height},
        columns_{columns()},
        channels_{channels()},
        out_width_{g.out.width},
        in_width_{g.in.width},
        positions_{positions()},
        pixels_{pixels()} {}

  /// Units in a row of the matrix.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t columns() const {
    return std::int64_t{geometry_.groups} * geometry_.window.kernel.height *
           geometry_.window.kernel.width * units_;
  }
  /// Rows of the matrix that are one sample's.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t positions() const {
    return std::int64_t{geometry_.out.height} * geometry_.out.width;
  }
  /// Pixels of one sample.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t pixels() const {
    return std::int64_t{geometry_.in.height} * geometry_.in.width;
  }
  /// Units of one pixel.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t channels() const {
    return std::int64_t{geometry_.groups} * units_;
  }

  /// The unit of x that stands in unit @p n of the matrix, both counted from the first of a run of
  /// samples; -1: outside the image.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t source(std::uint32_t n) const {
    std::uint32_t unit = n;
    std::uint32_t position = columns_.split(unit);
    std::uint32_t v = units_of_group_.split(unit);
    std::uint32_t u = kernel_width_.split(v);
    std::uint32_t const group = kernel_height_.split(u);
    std::uint32_t const sample = positions_.split(position);
    std::uint32_t const i = out_width_.split(position);
    Window const& w = geometry_.window;
    int const h = static_cast<int>(i) * w.stride.height + static_cast<int>(u) * w.dilation.height -
                  w.padding.height;
    int const c = static_cast<int>(position) * w.stride.width +
                  static_cast<int>(v) * w.dilation.width - w.padding.width;
    if (h < 0 || h >= geometry_.in.height || c < 0 || c >= geometry_.in.width) {
      return -1;
    }
    std::int64_t const pixel =
        (std::int64_t{sample} * geometry_.in.height + h) * geometry_.in.width + c;
    return pixel * channels() + std::int64_t{group} * units_ + unit;
  }

  /// Calls f(unit of the matrix) for each place where unit @p n of x stands, in the order of the
  /// kernel's rows and columns.
  template <class Function>
  TANDEM_HOST_DEVICE constexpr void each_place(std::uint32_t n, Function& f) const {
    std::uint32_t unit = n;
    std::uint32_t pixel = channels_.split(unit);
    std::uint32_t const group = units_of_group_.split(unit);
    std::uint32_t const sample = pixels_.split(pixel);
    std::uint32_t const row = in_width_.split(pixel);
    Window const& w = geometry_.window;
    int const h = static_cast<int>(row) + w.padding.height;
    int const c = static_cast<int>(pixel) + w.padding.width;
    for (int u = 0; u < w.kernel.height && u * w.dilation.height <= h; ++u) {
      int const i = position(h - u * w.dilation.height, w.stride.height, geometry_.out.height);
      for (int v = 0; i >= 0 && v < w.kernel.width && v * w.dilation.width <= c; ++v) {
        int const j = position(c - v * w.dilation.width, w.stride.width, geometry_.out.width);
        if (j >= 0) {
          std::int64_t const position = sample * positions() + i * geometry_.out.width + j;
          int const tap = (static_cast<int>(group) * w.kernel.height + u) * w.kernel.width + v;
          f(position * columns() + std::int64_t{tap} * units_ + unit);
        }
      }
    }
  }

 private:
  /// Where a window begins that begins at @p pixel; -1: none does.
  TANDEM_HOST_DEVICE static constexpr int position(int pixel, int stride, int count) {
    int const at = pixel / stride;
    return at * stride == pixel && at < count ? at : -1;
  }

  ConvolutionGeometry geometry_{};
  int units_ = 1;  // of one group of one pixel
  Divider units_of_group_{1};
  Divider kernel_width_{1};
  Divider kernel_height_{1};
  Divider columns_{1};
  Divider channels_{1};
  Divider out_width_{1};
  Divider in_width_{1};
  Divider positions_{1};
  Divider pixels_{1};
};

}  // namespace tandem::cuda
