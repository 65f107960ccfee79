// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The mean under each position of a window, channels-last, with padding counted as zeros or not.

#include <cstdint>

#include <tandem/core/geometry.hpp>
#include <tandem/kernels/cuda/image_launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/functors/window_cells.hpp>

namespace tandem::cuda {

namespace detail {

/// One thread for N channels of an output pixel.
template <int N, class T>
TANDEM_KERNEL void avg_pool_kernel(std::uint32_t count, ImageThreads threads, PoolGeometry g,
                                   bool count_include_pad, T const* x, T* y, int y_stride) {
  await_previous();
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);
  CellRange const cells = cells_under(g, at.row, at.column);
  Pack<ComputeType<T>, N> total = {};
  for (int h = cells.first_row; h < cells.last_row; ++h) {
    for (int w = cells.first_column; w < cells.last_column; ++w) {
      Pack<T, N> const value = load_pack<N>(x + at.offset(g.in, g.channels, h, w));
      for (int j = 0; j < N; ++j) {
        total.value[j] += load(value.value[j]);
      }
    }
  }
  int const divisor = mean_count(g, count_include_pad, cells);
  for (int j = 0; j < N; ++j) {
    total.value[j] =
        divisor > 0 ? total.value[j] / static_cast<ComputeType<T>>(divisor) : ComputeType<T>{0};
  }
  store_pack(y + at.offset(g.out, y_stride), stored<T>(total));
}

/// One thread for N channels of an input pixel, which adds its share of every window over it.
template <int N, class T>
TANDEM_KERNEL void avg_pool_gradient_kernel(std::uint32_t count, ImageThreads threads,
                                            PoolGeometry g, bool count_include_pad, T const* dy,
                                            int dy_stride, T* dx) {
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
      // At least one cell is counted: the one at hand. One division a window, not one a channel.
      int const divisor = mean_count(g, count_include_pad, cells_under(g, oh, ow));
      ComputeType<T> const share = ComputeType<T>{1} / static_cast<ComputeType<T>>(divisor);
      Pack<T, N> const gradient = load_pack<N>(dy + at.offset(g.out, dy_stride, oh, ow));
      for (int j = 0; j < N; ++j) {
        sum.value[j] += load(gradient.value[j]) * share;
      }
    }
  }
  store_pack(dx + at.offset(g.in, g.channels), stored<T>(sum));
}

}  // namespace detail

/// y = mean of x under the window; 0 where the mean is over no cell.
///
/// Shapes: x (B, in, C); y (B, out, C) with y_stride elements from pixel to pixel, 0: C.
/// Cost:   kernel area reads an output, most of them from a cache; bound by memory.
/// Order:  the cells of a window in row order, in ComputeType, as on Host.
/// Source: as PyTorch's avg_pool2d with ceil_mode off; `count_include_pad` divides by the kernel's
///         area everywhere, else by the number of cells inside the image
template <class T>
void avg_pool_forward(Stream const& stream, PoolGeometry const& g, int batch,
                      bool count_include_pad, T const* x, T* y, int y_stride = 0) {
  int const stride = y_stride > 0 ? y_stride : g.channels;
  if (packs_channels(g.channels, x, y) && stride % full_pack<T> == 0) {
    constexpr int width = full_pack<T>;
    launch_images(detail::avg_pool_kernel<width, T>, stream, batch, {g.out, g.channels, width}, g,
                  count_include_pad, x, y, stride);
  } else {
    launch_images(detail::avg_pool_kernel<1, T>, stream, batch, {g.out, g.channels, 1}, g,
                  count_include_pad, x, y, stride);
  }
}

/// dx = for each cell, the sum over its windows of dy divided as in the forward pass.
///
/// Shapes: dy (B, out, C) with dy_stride elements from pixel to pixel, 0: C; dx (B, in, C),
///         overwritten.
/// Cost:   reads dy once for each window over a cell, most of them from a cache.
/// Order:  the windows that share a cell are added in row order; each term is dy times the rounded
///         reciprocal of the count, where Host divides.
template <class T>
void avg_pool_gradient(Stream const& stream, PoolGeometry const& g, int batch,
                       bool count_include_pad, T const* dy, T* dx, int dy_stride = 0) {
  int const stride = dy_stride > 0 ? dy_stride : g.channels;
  if (packs_channels(g.channels, dy, dx) && stride % full_pack<T> == 0) {
    constexpr int width = full_pack<T>;
    launch_images(detail::avg_pool_gradient_kernel<width, T>, stream, batch,
                  {g.in, g.channels, width}, g, count_include_pad, dy, stride, dx);
  } else {
    launch_images(detail::avg_pool_gradient_kernel<1, T>, stream, batch, {g.in, g.channels, 1}, g,
                  count_include_pad, dy, stride, dx);
  }
}

}  // namespace tandem::cuda
