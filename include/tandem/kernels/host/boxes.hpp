// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rectangles of images, copied from one to another or added to it.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// A pixel of each of many images, which stand one behind the other.
template <class T>
struct PixelAt {
  T* data = nullptr;
  Extent2d image{};
  int row = 0;
  int column = 0;

  /// Where that pixel of image @p i is.
  /// @param numbers  of a pixel
  [[nodiscard]] T* of(std::int64_t i, int numbers) const {
    return data + ((i * image.height + row) * image.width + column) * std::int64_t{numbers};
  }
};

/// The rectangle of @p size pixels at @p from of each image, copied to @p to; or added to what is
/// there.
///
/// Shapes: images of `numbers` a pixel.
/// Cost:   reads and writes each number of the rectangles once; bound by memory.
template <bool Add, class T>
TANDEM_NOINLINE void move_boxes(Team& team, std::int64_t images, int numbers, Extent2d size,
                                PixelAt<T const> from, PixelAt<T> to) {
  using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::int64_t const count = std::int64_t{size.width} * numbers;
  team.parallel_for(images * size.height, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      std::int64_t const i = task / size.height;
      std::int64_t const row = task % size.height;
      T const* const x = from.of(i, numbers) + row * from.image.width * numbers;
      T* const y = to.of(i, numbers) + row * to.image.width * numbers;
      if constexpr (Add) {
        for (std::int64_t c = 0; c < count; ++c) {
          y[c] = static_cast<T>(static_cast<Real>(y[c]) + static_cast<Real>(x[c]));
        }
      } else {
        std::copy_n(x, count, y);
      }
    }
  });
}

}  // namespace tandem::host
