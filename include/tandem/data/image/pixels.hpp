// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pixels: a decoded image, as bytes; and its conversion to grey, RGB or RGBA.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

/// The largest image that is decoded, 134 million pixels: a few bytes can claim to be any size.
inline constexpr std::int64_t image_pixels_limit = std::int64_t{1} << 27;
/// Its largest height and width.
inline constexpr std::int64_t image_side_limit = 65535;

/// An image of bytes (height, width, channels): 1 channel is grey, 2 grey and alpha, 3 RGB, 4 RGBA.
struct Pixels {
  int channels = 0;
  int height = 0;
  int width = 0;
  std::vector<std::uint8_t> bytes;
};

namespace detail {

/// @throws FileError  there are more than @p limit, or rows or columns than image_side_limit
TANDEM_ONCE void check_pixels(std::int64_t height, std::int64_t width, std::string const& name,
                              std::int64_t limit);

}  // namespace detail

/// The image in @p channels of 1, 3 or 4. Grey is 0.299 R + 0.587 G + 0.114 B, in the integers of
/// Pillow's convert("L"); alpha is dropped, or 255 where there was none.
TANDEM_ONCE [[nodiscard]] Pixels with_channels(Pixels image, int channels);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void check_pixels(std::int64_t height, std::int64_t width, std::string const& name,
                              std::int64_t limit) {
  if (height < 1 || width < 1 || height > image_side_limit || width > image_side_limit ||
      height * width > limit) {
    throw FileError{name, "an image of " + std::to_string(width) + " x " + std::to_string(height) +
                              " pixels is larger than what is read, " + std::to_string(limit) +
                              " pixels and 65535 rows or columns"};
  }
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE Pixels with_channels(Pixels image, int channels) {
  if (image.channels == channels) {
    return image;
  }
  auto const from = static_cast<std::size_t>(image.channels);
  auto const to = static_cast<std::size_t>(channels);
  std::size_t const count = image.bytes.size() / from;
  Pixels out{channels, image.height, image.width, std::vector<std::uint8_t>(count * to)};
  std::uint8_t const* in = image.bytes.data();
  std::uint8_t* write = out.bytes.data();
  for (std::size_t i = 0; i < count; ++i, in += from, write += to) {
    bool const grey = from < 3;
    std::uint32_t const r = in[0];
    std::uint32_t const g = grey ? r : in[1];
    std::uint32_t const b = grey ? r : in[2];
    if (to == 1) {
      write[0] = static_cast<std::uint8_t>(
          grey ? r : (r * 19595U + g * 38470U + b * 7471U + 0x8000U) >> 16U);
      continue;
    }
    write[0] = static_cast<std::uint8_t>(r);
    write[1] = static_cast<std::uint8_t>(g);
    write[2] = static_cast<std::uint8_t>(b);
    if (to == 4) {
      write[3] = from == 2 ? in[1] : from == 4 ? in[3] : std::uint8_t{255};
    }
  }
  return out;
}

}  // namespace tandem

#endif
