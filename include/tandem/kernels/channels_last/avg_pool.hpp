// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The mean under each position of a window of channels-last images, with padding counted as zeros
/// or not counted.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/functors/window_cells.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

/// y = mean of x under the window; 0 where the mean is over no cell.
///
/// Shapes: x (B, in, C) with x_stride >= C elements from pixel to pixel; y (B, out, C), likewise.
/// Cost:   kernel area reads an output, most of them from a cache.
/// Order:  the cells of a window in row order, in float, times the reciprocal of their number.
/// Source: as PyTorch's avg_pool2d with ceil_mode off; `count_include_pad` divides by the kernel's
///         area everywhere, else by the number of cells inside the image
template <class T>
TANDEM_NOINLINE void avg_pool_forward(Team& team, PoolGeometry const& g, int batch,
                                      bool count_include_pad, T const* x, std::int64_t x_stride,
                                      T* y, std::int64_t y_stride) {
  team.parallel_for(std::int64_t{batch} * g.out.height, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t const row_stride = g.in.width * x_stride;
    for (std::int64_t row = begin; row < end; ++row) {
      int const oh = static_cast<int>(row % g.out.height);
      T const* const image = x + row / g.out.height * g.in.height * row_stride;
      for (int ow = 0; ow < g.out.width; ++ow) {
        CellRange const under = cells_under(g, oh, ow);
        int const count = mean_count(g, count_include_pad, under);
        Floats const share{count > 0 ? 1.0F / static_cast<float>(count) : 0.0F};
        T const* const corner =
            image + under.first_row * row_stride + under.first_column * x_stride;
        int const rows = under.last_row - under.first_row;
        T* const to = y + (row * g.out.width + ow) * y_stride;
        with_columns(under.last_column - under.first_column, [&](auto columns) {
          for_vectors(g.channels, [&](int c, auto some) {
            Floats total{0.0F};
            T const* from = corner + c;
            for (int u = 0; u < rows; ++u, from += row_stride) {
              for_cells(
                  columns, [&](int v) __attribute__((always_inline)) {
                    total += some.load(from + v * x_stride);
                  });
            }
            some.store(to + c, total * share);
            will_read(corner + c, (rows - 1) * row_stride + (columns + 1) * x_stride);
            will_write(to + c, 2 * y_stride);
          });
        });
      }
    }
  });
}

/// dx = for each cell, the sum over its windows of dy divided as in the forward pass.
///
/// Shapes: dy (B, out, C) with dy_stride >= C elements from pixel to pixel; dx (B, in, C) with
///         dx_stride, overwritten.
/// Cost:   reads dy once for each window over a cell, most of them from a cache; writes dx once.
/// Order:  the windows that share a cell are added in row order, in float, and divided by
///         multiplying with the reciprocal: their sum where they all have the same number of cells.
template <class T>
TANDEM_NOINLINE void avg_pool_gradient(Team& team, PoolGeometry const& g, int batch,
                                       bool count_include_pad, T const* dy, std::int64_t dy_stride,
                                       T* dx, std::int64_t dx_stride) {
  team.parallel_for(std::int64_t{batch} * g.in.height, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      int const h = static_cast<int>(row % g.in.height);
      T const* const image = dy + row / g.in.height * g.out.height * g.out.width * dy_stride;
      for (int w = 0; w < g.in.width; ++w) {
        CellRange const over = windows_over(g, h, w);
        int const rows = over.last_row - over.first_row;
        int const first = over.first_column;
        T const* const corner =
            image + (std::int64_t{over.first_row} * g.out.width + first) * dy_stride;
        T* const to = dx + (row * g.in.width + w) * dx_stride;
        int const whole = g.window.kernel.height * g.window.kernel.width;
        // Where the windows are divided by the same number, their sum is.
        CellRange const under_first = cells_under(g, over.first_row, first);
        CellRange const under_last = cells_under(g, over.last_row - 1, over.last_column - 1);
        bool const same =
            count_include_pad || (under_first.count() == whole && under_last.count() == whole);
        Floats const share{1.0F / static_cast<float>(whole)};
        if (!same) {
          for_vectors(g.channels, [&](int c, auto some) {
            Floats total{0.0F};
            for (int u = 0; u < rows; ++u) {
              for (int v = 0; v < over.last_column - first; ++v) {
                int const count = cells_under(g, over.first_row + u, first + v).count();
                total += some.load(corner + (std::int64_t{u} * g.out.width + v) * dy_stride + c) *
                         Floats{1.0F / static_cast<float>(count)};
              }
            }
            some.store(to + c, total);
          });
          continue;
        }
        with_columns(over.last_column - first, [&](auto columns) {
          for_vectors(g.channels, [&](int c, auto some) {
            Floats total{0.0F};
            T const* from = corner + c;
            for (int u = 0; u < rows; ++u, from += g.out.width * dy_stride) {
              for_cells(
                  columns, [&](int v) __attribute__((always_inline)) {
                    total += some.load(from + v * dy_stride);
                  });
            }
            some.store(to + c, total * share);
            will_read(corner + c, ((rows - 1) * g.out.width + columns + 1) * dy_stride);
            will_write(to + c, 2 * dx_stride);
          });
        });
      }
    }
  });
}

}  // namespace tandem::host::channels_last
