// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TileBox: a rectangle of an image, some of which may be outside.

#include <algorithm>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>

namespace tandem {

/// Rows and columns of an image; some may be outside.
struct TileBox {
  int row = 0;
  int column = 0;
  Extent2d size{0, 0};

  [[nodiscard]] constexpr bool empty() const { return size.height <= 0 || size.width <= 0; }
  [[nodiscard]] constexpr int pixels() const { return empty() ? 0 : size.height * size.width; }

  /// Whether pixel (@p r, @p c) of the image is one of them.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr bool has(int r, int c) const {
    return r >= row && r < row + size.height && c >= column && c < column + size.width;
  }

  friend constexpr bool operator==(TileBox const&, TileBox const&) = default;
};

/// What both have.
constexpr TileBox common_box(TileBox const& a, TileBox const& b) {
  int const row = std::max(a.row, b.row);
  int const column = std::max(a.column, b.column);
  int const bottom = std::min(a.row + a.size.height, b.row + b.size.height);
  int const right = std::min(a.column + a.size.width, b.column + b.size.width);
  return {row, column, {bottom - row, right - column}};
}

}  // namespace tandem
