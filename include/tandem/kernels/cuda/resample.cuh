// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Images padded or enlarged, channels-last: each pixel a mean of a few of another image's, and the
/// gradient.

#include <cstdint>

#include <tandem/kernels/cuda/image_launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/functors/resample_axes.hpp>

namespace tandem::cuda {

namespace detail {

/// One thread for N channels of a pixel of what is written.
template <int N, class T, class Way>
TANDEM_KERNEL void resample_kernel(std::uint32_t count, ImageThreads threads, int channels,
                                   Way rows, Way columns, T const* from, T* to) {
  await_previous();
  using C = ComputeType<T>;
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);
  Extent2d const read{rows.read(), columns.read()};
  Pack<C, N> total = {};
  for (int u = 0; u < rows.terms(at.row); ++u) {
    auto const of_row = rows.template term<C>(at.row, u);
    for (int v = 0; v < columns.terms(at.column); ++v) {
      auto const of_column = columns.template term<C>(at.column, v);
      Pack<T, N> const value =
          load_pack<N>(from + at.offset(read, channels, of_row.at, of_column.at));
      for (int k = 0; k < N; ++k) {
        total.value[k] += of_row.weight * of_column.weight * load(value.value[k]);
      }
    }
  }
  store_pack(to + at.offset({rows.written(), columns.written()}, channels), stored<T>(total));
}

template <class T, class Way>
void resample(Stream const& stream, int batch, int channels, Way const& rows, Way const& columns,
              T const* from, T* to) {
  Extent2d const written{rows.written(), columns.written()};
  if (packs_channels(channels, from, to)) {
    constexpr int width = full_pack<T>;
    launch_images(resample_kernel<width, T, Way>, stream, batch, {written, channels, width},
                  channels, rows, columns, from, to);
  } else {
    launch_images(resample_kernel<1, T, Way>, stream, batch, {written, channels, 1}, channels, rows,
                  columns, from, to);
  }
}

}  // namespace detail

/// y = x with the rows and columns of @p g.
///
/// Shapes: x (B, in, channels); y (B, out, channels).
/// Cost:   reads one to four pixels an output, most of them from a cache; bound by memory.
/// Order:  the pixels of the input row by row, in ComputeType, as on Host.
template <class T, class Axis>
void resample_forward(Stream const& stream, Resampling<Axis> const& g, int batch, T const* x,
                      T* y) {
  detail::resample(stream, batch, g.channels, TowardsOutput<Axis>{g.rows},
                   TowardsOutput<Axis>{g.columns}, x, y);
}

/// The gradient of resample_forward.
///
/// Shapes: dy (B, out, channels); dx (B, in, channels), overwritten.
/// Cost:   reads each element of dy once to four times; bound by memory.
/// Order:  the pixels of the output row by row, in ComputeType, as on Host.
template <class T, class Axis>
void resample_gradient(Stream const& stream, Resampling<Axis> const& g, int batch, T const* dy,
                       T* dx) {
  detail::resample(stream, batch, g.channels, TowardsInput<Axis>{g.rows},
                   TowardsInput<Axis>{g.columns}, dy, dx);
}

}  // namespace tandem::cuda
