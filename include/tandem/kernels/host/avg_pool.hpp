// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The mean under each position of a window, with padding counted as zeros or not counted.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/functors/window_cells.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y = mean of x under the window; 0 where the mean is over no cell.
///
/// Shapes: x (B, C, in); y (B, C, out).
/// Cost:   kernel area reads an output.
/// Order:  the cells of a window in row order, in T.
/// Source: as PyTorch's avg_pool2d with ceil_mode off; `count_include_pad` divides by the kernel's
///         area everywhere, else by the number of cells inside the image
template <class T>
TANDEM_NOINLINE void avg_pool_forward(Team& team, PoolGeometry const& g, int batch,
                                      bool count_include_pad, T const* x, T* y) {
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{g.out.height} * g.out.width;
  team.parallel_for(std::int64_t{batch} * g.channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      T const* const from = x + map * in_pixels;
      T* to = y + map * out_pixels;
      for (int oh = 0; oh < g.out.height; ++oh) {
        for (int ow = 0; ow < g.out.width; ++ow) {
          CellRange const cells = cells_under(g, oh, ow);
          int const count = mean_count(g, count_include_pad, cells);
          T total{0};
          for (int h = cells.first_row; h < cells.last_row; ++h) {
            for (int w = cells.first_column; w < cells.last_column; ++w) {
              total += from[std::int64_t{h} * g.in.width + w];
            }
          }
          *to++ = count > 0 ? total / static_cast<T>(count) : T{0};
        }
      }
    }
  });
}

/// dx = for each cell, the sum over its windows of dy divided as in the forward pass.
///
/// Shapes: dy (B, C, out); dx (B, C, in), overwritten.
/// Cost:   kernel area additions an output.
/// Order:  the windows that share a cell are added in row order.
template <class T>
TANDEM_NOINLINE void avg_pool_gradient(Team& team, PoolGeometry const& g, int batch,
                                       bool count_include_pad, T const* dy, T* dx) {
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{g.out.height} * g.out.width;
  team.parallel_for(std::int64_t{batch} * g.channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      T const* from = dy + map * out_pixels;
      T* const to = dx + map * in_pixels;
      std::fill(to, to + in_pixels, T{0});
      for (int oh = 0; oh < g.out.height; ++oh) {
        for (int ow = 0; ow < g.out.width; ++ow) {
          CellRange const cells = cells_under(g, oh, ow);
          int const count = mean_count(g, count_include_pad, cells);
          T const share = count > 0 ? *from / static_cast<T>(count) : T{0};
          ++from;
          for (int h = cells.first_row; h < cells.last_row; ++h) {
            for (int w = cells.first_column; w < cells.last_column; ++w) {
              to[std::int64_t{h} * g.in.width + w] += share;
            }
          }
        }
      }
    }
  });
}

}  // namespace tandem::host
