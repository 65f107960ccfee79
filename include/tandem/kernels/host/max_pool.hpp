// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The largest element under each position of a window; padding counts as minus infinity.
///
/// The forward pass saves which cell was the largest, so that the gradient has no tie to break.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/functors/largest_cell.hpp>
#include <tandem/kernels/functors/window_cells.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

namespace detail {

/// One map of max_pool_forward.
template <class T>
void max_pool_map(PoolGeometry const& g, T const* x, T* y, std::int32_t* index) {
  for (int oh = 0; oh < g.out.height; ++oh) {
    for (int ow = 0; ow < g.out.width; ++ow) {
      CellRange const cells = cells_under(g, oh, ow);
      LargestCell<T> largest;
      for (int h = cells.first_row; h < cells.last_row; ++h) {
        for (int w = cells.first_column; w < cells.last_column; ++w) {
          std::int32_t const cell = h * g.in.width + w;
          largest.offer(x[cell], cell);
        }
      }
      *y++ = largest.best;
      *index++ = largest.where;
    }
  }
}

}  // namespace detail

/// y = max of x under the window; a tie goes to the first cell in row order, a NaN wins.
///
/// Shapes: x (B, C, in); y (B, C, out); index (B, C, out), the chosen cell of its map: row times
///         the width of `in` plus column, or -1 (and y = -inf) where a window holds nothing but
///         padding.
/// Saves:  index, 4 bytes an output, until the gradient.
/// Cost:   kernel area reads an output.
/// Source: as PyTorch's max_pool2d, also for NaN and ties
template <class T>
TANDEM_NOINLINE void max_pool_forward(Team& team, PoolGeometry const& g, int batch, T const* x,
                                      T* y, std::int32_t* index) {
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{g.out.height} * g.out.width;
  team.parallel_for(std::int64_t{batch} * g.channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      detail::max_pool_map(g, x + map * in_pixels, y + map * out_pixels, index + map * out_pixels);
    }
  });
}

/// dx = for each cell, the sum of dy over the windows that chose it.
///
/// Shapes: dy (B, C, out); index (B, C, out), from the forward pass; dx (B, C, in), overwritten.
/// Cost:   writes dx once, reads dy and index once.
/// Order:  the windows that share a cell are added in row order.
template <class T>
TANDEM_NOINLINE void max_pool_gradient(Team& team, PoolGeometry const& g, int batch, T const* dy,
                                       std::int32_t const* index, T* dx) {
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{g.out.height} * g.out.width;
  team.parallel_for(std::int64_t{batch} * g.channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      T* const to = dx + map * in_pixels;
      std::fill(to, to + in_pixels, T{0});
      for (std::int64_t i = map * out_pixels; i < (map + 1) * out_pixels; ++i) {
        if (index[i] >= 0) {
          to[index[i]] += dy[i];
        }
      }
    }
  });
}

}  // namespace tandem::host
