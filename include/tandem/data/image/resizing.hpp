// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Resize and CenterCrop: transforms that bring images to another size, in evaluation, too.

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/image/resample.hpp>
#include <tandem/data/transform.hpp>

namespace tandem {

/// The image in @p height rows and @p width columns, bilinear and with antialiasing, as
/// torchvision's of the two numbers on floats.
///
/// Cost: as resize(), and memory for a channel.
struct Resize {
  int height = 0;
  int width = 0;

  TANDEM_ONCE [[nodiscard]] Shape output(Shape const& in) const;

  TANDEM_ONCE void apply(std::span<float> x, Shape const& in) const;
};

/// The middle of an image; of an odd border the larger half is above and on the left where it is
/// 4 n + 3, else below and on the right, as torchvision rounds.
struct CenterCrop {
  int height = 0;
  int width = 0;

  TANDEM_ONCE [[nodiscard]] Shape output(Shape const& in) const;

  /// Rows from the first to the last: none is overwritten before it has been moved.
  TANDEM_ONCE void apply(std::span<float> x, Shape const& in) const;

  /// Half of @p rest; of two halves as near the even one.
  static constexpr int border(int rest) { return rest / 2 + (rest % 4 == 3 ? 1 : 0); }
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE Shape Resize::output(Shape const& in) const {
  expects(detail::is_image(in), "Resize: the sample must be an image (C, H, W)");
  expects(height >= 1 && height <= 65535 && width >= 1 && width <= 65535,
          "Resize: give a height and a width from 1 to 65535");
  return image_shape(in[0], height, width);
}

TANDEM_ONCE void Resize::apply(std::span<float> x, Shape const& in) const {
  auto const area = [](int rows, int columns) {
    return static_cast<std::ptrdiff_t>(rows) * static_cast<std::ptrdiff_t>(columns);
  };
  std::ptrdiff_t const from = area(in[1], in[2]);
  std::ptrdiff_t const to = area(height, width);
  std::vector<float> plane(static_cast<std::size_t>(to));
  bool const is_larger = to > from;
  for (int i = 0; i < in[0]; ++i) {
    std::ptrdiff_t const c = is_larger ? in[0] - 1 - i : i;  // none is overwritten unread
    detail::resample<detail::FloatArithmetic>(x.data() + c * from, static_cast<std::size_t>(in[2]),
                                              1, {0, 0, in[1], in[2]}, height, width,
                                              {0, 0, height, width}, plane.data());
    std::memcpy(x.data() + c * to, plane.data(), plane.size() * sizeof(float));
  }
}

TANDEM_ONCE Shape CenterCrop::output(Shape const& in) const {
  expects(detail::is_image(in), "CenterCrop: the sample must be an image (C, H, W)");
  expects(height >= 1 && height <= in[1] && width >= 1 && width <= in[2],
          "CenterCrop: give a height and a width of at least 1 and at most the image's; PadTo "
          "makes it larger");
  return image_shape(in[0], height, width);
}

TANDEM_ONCE void CenterCrop::apply(std::span<float> x, Shape const& in) const {
  std::ptrdiff_t const top = border(in[1] - height);
  std::ptrdiff_t const left = border(in[2] - width);
  float* to = x.data();
  for (std::ptrdiff_t c = 0; c < in[0]; ++c) {
    for (std::ptrdiff_t r = 0; r < height; ++r, to += width) {
      float const* const from = x.data() + (c * in[1] + top + r) * in[2] + left;
      std::memmove(to, from, static_cast<std::size_t>(width) * sizeof(float));
    }
  }
}

}  // namespace tandem

#endif
