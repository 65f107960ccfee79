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
template <int N, class T>
TANDEM_KERNEL void max_pool_kernel(std::uint32_t count, ImageThreads threads, PoolGeometry g,
                                   T const* x, T* y, std::int32_t* index) {
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);
  CellRange const cells = cells_under(g, at.row, at.column);
  LargestCell<ComputeType<T>> largest[N];
  for (int h = cells.first_row; h < cells.last_row; ++h) {
    for (int w = cells.first_column; w < cells.last_column; ++w) {
      Pack<T, N> const value = load_pack<N>(x + at.offset(g.in, g.channels, h, w));
      for (int j = 0; j < N; ++j) {
        largest[j].offer(load(value.value[j]), h * g.in.width + w);
      }
    }
  }
  Pack<T, N> best;
  Pack<std::int32_t, N> where;
  for (int j = 0; j < N; ++j) {
    best.value[j] = store<T>(largest[j].best);
    where.value[j] = largest[j].where;
  }
  store_pack(y + at.offset(g.out, g.channels), best);
  store_pack(index + at.offset(g.out, g.channels), where);
}

/// One thread for N channels of an input pixel: it asks every window over it whether it was chosen.
template <int N, class T>
TANDEM_KERNEL void max_pool_gradient_kernel(std::uint32_t count, ImageThreads threads,
                                            PoolGeometry g, T const* dy, std::int32_t const* index,
                                            T* dx) {
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);
  CellRange const windows = windows_over(g, at.row, at.column);
  std::int32_t const cell = at.row * g.in.width + at.column;
  Pack<ComputeType<T>, N> sum = {};
  for (int oh = windows.first_row; oh < windows.last_row; ++oh) {
    for (int ow = windows.first_column; ow < windows.last_column; ++ow) {
      std::int64_t const from = at.offset(g.out, g.channels, oh, ow);
      Pack<std::int32_t, N> const where = load_pack<N>(index + from);
      Pack<T, N> const gradient = load_pack<N>(dy + from);
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
/// Shapes: x (B, in, C); y (B, out, C); index (B, out, C), the chosen cell: row times the width of
///         `in` plus column, or -1 (and y = -inf) where a window holds nothing but padding.
/// Saves:  index, 4 bytes an output, until the gradient.
/// Cost:   kernel area reads an output, most of them from a cache; bound by memory.
/// Source: as PyTorch's max_pool2d, also for NaN and ties
template <class T>
void max_pool_forward(Stream const& stream, PoolGeometry const& g, int batch, T const* x, T* y,
                      std::int32_t* index) {
  if (packs_channels(g.channels, x, y) && aligned(index)) {
    constexpr int width = full_pack<T>;
    launch_images(detail::max_pool_kernel<width, T>, stream, batch, {g.out, g.channels, width}, g,
                  x, y, index);
  } else {
    launch_images(detail::max_pool_kernel<1, T>, stream, batch, {g.out, g.channels, 1}, g, x, y,
                  index);
  }
}

/// dx = for each cell, the sum of dy over the windows that chose it.
///
/// Shapes: dy (B, out, C); index (B, out, C), from the forward pass; dx (B, in, C), overwritten.
/// Cost:   reads dy and index once for each window over a cell, most of them from a cache.
/// Order:  the windows that share a cell are added in row order, as on Host.
template <class T>
void max_pool_gradient(Stream const& stream, PoolGeometry const& g, int batch, T const* dy,
                       std::int32_t const* index, T* dx) {
  if (packs_channels(g.channels, dy, dx) && aligned(index)) {
    constexpr int width = full_pack<T>;
    launch_images(detail::max_pool_gradient_kernel<width, T>, stream, batch,
                  {g.in, g.channels, width}, g, dy, index, dx);
  } else {
    launch_images(detail::max_pool_gradient_kernel<1, T>, stream, batch, {g.in, g.channels, 1}, g,
                  dy, index, dx);
  }
}

}  // namespace tandem::cuda
