// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The largest element under each position of a window, channels-last.
///
/// The forward pass saves which cell was the largest, so that the gradient has no tie to break; the
/// gradient gathers, cell by cell, and so needs no atomics and has one order.

#include <cstdint>

#include <tandem/core/geometry.hpp>
#include <tandem/kernels/cuda/image_launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/functors/largest_cell.hpp>
#include <tandem/kernels/functors/window_cells.hpp>

namespace tandem::cuda {

namespace detail {

/// One thread for N channels of an output pixel.
template <int N, class T, class Cell>
TANDEM_KERNEL void max_pool_kernel(std::uint32_t count, ImageThreads threads, PoolGeometry g,
                                   T const* x, T* y, int y_stride, Cell* chosen) {
  await_previous();
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);
  CellRange const cells = cells_under(g, at.row, at.column);
  ComputeType<T> const least = LargestCell<ComputeType<T>>{}.best;
  Pack<ComputeType<T>, N> best;
  Pack<int, N> where;
  for (int j = 0; j < N; ++j) {
    best.value[j] = least;
    where.value[j] = no_cell<Cell>;
  }
  auto const look = [&](int h, int w, bool first) {
    Pack<T, N> const value = load_pack<N>(x + at.offset(g.in, g.channels, h, w));
    int const cell = cell_in_window(g, at.row, at.column, h, w);
    for (int j = 0; j < N; ++j) {
      ComputeType<T> const v = load(value.value[j]);
      if (first || v > best.value[j] || v != v) {  // v != v: a NaN
        best.value[j] = v;
        where.value[j] = cell;
      }
    }
  };
  if (cells.count() > 0) {
    look(cells.first_row, cells.first_column, true);
  }
  for (int h = cells.first_row; h < cells.last_row; ++h) {
    for (int w = cells.first_column; w < cells.last_column; ++w) {
      look(h, w, false);
    }
  }
  Pack<Cell, N> narrow;
  for (int j = 0; j < N; ++j) {
    narrow.value[j] = static_cast<Cell>(where.value[j]);
  }
  store_pack(y + at.offset(g.out, y_stride), stored<T>(best));
  store_pack(chosen + at.offset(g.out, g.channels), narrow);
}

/// One thread for N channels of an input pixel: it asks every window over it whether it was chosen.
template <int N, class T, class Cell>
TANDEM_KERNEL void max_pool_gradient_kernel(std::uint32_t count, ImageThreads threads,
                                            PoolGeometry g, T const* dy, int dy_stride,
                                            Cell const* chosen, T* dx) {
  await_previous();
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);
  CellRange const windows = windows_over(g, at.row, at.column);
  Pack<ComputeType<T>, N> sum = {};
  for (int oh = windows.first_row; oh < windows.last_row; ++oh) {
    for (int ow = windows.first_column; ow < windows.last_column; ++ow) {
      int const cell = cell_in_window(g, oh, ow, at.row, at.column);
      Pack<Cell, N> const where = load_pack<N>(chosen + at.offset(g.out, g.channels, oh, ow));
      Pack<T, N> const gradient = load_pack<N>(dy + at.offset(g.out, dy_stride, oh, ow));
      for (int j = 0; j < N; ++j) {
        sum.value[j] += where.value[j] == cell ? load(gradient.value[j]) : ComputeType<T>{0};
      }
    }
  }
  store_pack(dx + at.offset(g.in, g.channels), stored<T>(sum));
}

}  // namespace detail

/// y = max of x under the window; a tie goes to the first cell in row order, a NaN wins.
///
/// Shapes: x (B, in, C); y (B, out, C) with y_stride elements from pixel to pixel, 0: C; chosen
///         (B, out, C): the cell of each window, row times the window's width plus column; no_cell
///         (and y = -inf) where a window holds nothing but padding.
/// Saves:  chosen, 1 byte an output (Cell = std::uint8_t) or 4 (std::int32_t), until the gradient.
/// Cost:   kernel area reads an output, most of them from a cache; bound by memory.
/// Source: as PyTorch's max_pool2d, also for NaN and ties
/// @pre    Cell = std::uint8_t: cell_fits_byte(g.window)
template <class T, class Cell>
void max_pool_forward(Stream const& stream, PoolGeometry const& g, int batch, T const* x, T* y,
                      Cell* chosen, int y_stride = 0) {
  int const stride = y_stride > 0 ? y_stride : g.channels;
  if (packs_channels(g.channels, x, y) && stride % full_pack<T> == 0 && aligned(chosen)) {
    constexpr int width = full_pack<T>;
    launch_images(detail::max_pool_kernel<width, T, Cell>, stream, batch,
                  {g.out, g.channels, width}, g, x, y, stride, chosen);
  } else {
    launch_images(detail::max_pool_kernel<1, T, Cell>, stream, batch, {g.out, g.channels, 1}, g, x,
                  y, stride, chosen);
  }
}

/// dx = for each cell, the sum of dy over the windows that chose it.
///
/// Shapes: dy (B, out, C) with dy_stride elements from pixel to pixel, 0: C; chosen (B, out, C),
///         from the forward pass; dx (B, in, C), overwritten.
/// Cost:   reads dy and chosen once for each window over a cell, most of them from a cache.
/// Order:  the windows that share a cell are added in row order, as on Host.
template <class T, class Cell>
void max_pool_gradient(Stream const& stream, PoolGeometry const& g, int batch, T const* dy,
                       Cell const* chosen, T* dx, int dy_stride = 0) {
  int const stride = dy_stride > 0 ? dy_stride : g.channels;
  if (packs_channels(g.channels, dy, dx) && stride % full_pack<T> == 0 && aligned(chosen)) {
    constexpr int width = full_pack<T>;
    launch_images(detail::max_pool_gradient_kernel<width, T, Cell>, stream, batch,
                  {g.in, g.channels, width}, g, dy, stride, chosen, dx);
  } else {
    launch_images(detail::max_pool_gradient_kernel<1, T, Cell>, stream, batch,
                  {g.in, g.channels, 1}, g, dy, stride, chosen, dx);
  }
}

}  // namespace tandem::cuda
