// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which cells a window covers, and which windows cover a cell.

#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>

namespace tandem {

/// The rows [first_row, last_row) and columns [first_column, last_column), none if one is empty.
struct CellRange {
  int first_row, last_row, first_column, last_column;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int count() const {
    int const rows = last_row - first_row;
    int const columns = last_column - first_column;
    return (rows > 0 ? rows : 0) * (columns > 0 ? columns : 0);
  }
};

/// The cells of the image under the window at (@p oh, @p ow), without padding.
TANDEM_HOST_DEVICE constexpr CellRange cells_under(PoolGeometry const& g, int oh, int ow) {
  Window const& window = g.window;
  int const top = oh * window.stride.height - window.padding.height;
  int const left = ow * window.stride.width - window.padding.width;
  int const bottom = top + window.kernel.height;
  int const right = left + window.kernel.width;
  return {top > 0 ? top : 0, bottom < g.in.height ? bottom : g.in.height, left > 0 ? left : 0,
          right < g.in.width ? right : g.in.width};
}

/// What a window of padding only saves: no cell of the image.
template <class Cell>
inline constexpr Cell no_cell = std::numeric_limits<Cell>::max();

/// Whether the cells of a window, and no_cell, can be told apart in a byte.
constexpr bool cell_fits_byte(Window const& window) {
  return window.kernel.height * window.kernel.width <= 255;
}

/// The number, in row order, of the cell at (@p h, @p w) in the window at (@p oh, @p ow).
TANDEM_HOST_DEVICE constexpr int cell_in_window(PoolGeometry const& g, int oh, int ow, int h,
                                                int w) {
  Window const& window = g.window;
  int const row = h - (oh * window.stride.height - window.padding.height);
  int const column = w - (ow * window.stride.width - window.padding.width);
  return row * window.kernel.width + column;
}

/// The positions of the window under which the cell at (@p h, @p w) lies.
TANDEM_HOST_DEVICE constexpr CellRange windows_over(PoolGeometry const& g, int h, int w) {
  Window const& window = g.window;
  int const row = h + window.padding.height;
  int const column = w + window.padding.width;
  int const before_row = row - window.kernel.height;  // the last row of windows that end above it
  int const before_column = column - window.kernel.width;
  int const last_row = row / window.stride.height + 1;
  int const last_column = column / window.stride.width + 1;
  return {before_row < 0 ? 0 : before_row / window.stride.height + 1,
          last_row < g.out.height ? last_row : g.out.height,
          before_column < 0 ? 0 : before_column / window.stride.width + 1,
          last_column < g.out.width ? last_column : g.out.width};
}

/// What the sum of @p cells is divided by: the kernel's area, or the number of cells of the image.
TANDEM_HOST_DEVICE constexpr int mean_count(PoolGeometry const& g, bool count_include_pad,
                                            CellRange const& cells) {
  return count_include_pad ? g.window.kernel.height * g.window.kernel.width : cells.count();
}

}  // namespace tandem
