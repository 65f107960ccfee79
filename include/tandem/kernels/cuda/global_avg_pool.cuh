// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The mean of each map, and its gradient, channels-last.

#include <cstdint>

#include <tandem/kernels/cuda/image_launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>

namespace tandem::cuda {

namespace detail {

inline constexpr int map_columns = 32;  // packs of channels of a block
inline constexpr int map_lines = 8;     // interleaved sums of each
inline constexpr int map_run = 8;       // pixels that one thread of the gradient writes

/// One block for 32 packs of a sample: a warp reads 32 neighbouring packs of one pixel at a time.
/// Each pack has a sum of its own, across the warps, which no collective of CUB adds.
template <int N, class T>
TANDEM_KERNEL void global_avg_pool_kernel(Divider groups, int packs, int pixels, T const* x, T* y) {
  await_previous();
  using C = ComputeType<T>;
  __shared__ C sum[map_lines][map_columns][N];
  std::uint32_t group = blockIdx.x;
  std::int64_t const sample = static_cast<std::int64_t>(groups.split(group));
  int const column = static_cast<int>(threadIdx.x) % map_columns;
  int const line = static_cast<int>(threadIdx.x) / map_columns;
  int const pack = static_cast<int>(group) * map_columns + column;
  Pack<C, N> total = {};
  if (pack < packs) {
    for (int p = line; p < pixels; p += map_lines) {
      std::int64_t const at = (sample * pixels + p) * packs + pack;
      Pack<C, N> const value = loaded(load_pack<N>(x + at * N));
      for (int j = 0; j < N; ++j) {
        total.value[j] += value.value[j];
      }
    }
  }
  for (int j = 0; j < N; ++j) {
    sum[line][column][j] = total.value[j];
  }
  __syncthreads();
  if (line == 0 && pack < packs) {
    for (int l = 1; l < map_lines; ++l) {
      for (int j = 0; j < N; ++j) {
        total.value[j] += sum[l][column][j];
      }
    }
    for (int j = 0; j < N; ++j) {
      total.value[j] /= static_cast<C>(pixels);
    }
    store_pack(y + (sample * packs + pack) * N, stored<T>(total));
  }
}

/// One thread for N channels of up to 8 pixels, a column of `threads`.
template <int N, class T>
TANDEM_KERNEL void global_avg_pool_gradient_kernel(std::uint32_t count, ImageThreads threads,
                                                   int channels, int pixels, T const* dy, T* dx) {
  await_previous();
  using C = ComputeType<T>;
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);
  Pack<C, N> gradient = loaded(load_pack<N>(dy + at.sample * channels + at.channel));
  for (int j = 0; j < N; ++j) {
    gradient.value[j] /= static_cast<C>(pixels);
  }
  Pack<T, N> const share = stored<T>(gradient);
  int const first = at.column * map_run;
  for (int p = first; p < first + map_run && p < pixels; ++p) {
    store_pack(dx + (at.sample * pixels + p) * channels + at.channel, share);
  }
}

template <int N, class T>
void global_avg_pool_forward(Stream const& stream, int batch, int channels, int pixels, T const* x,
                             T* y) {
  int const packs = channels / N;
  std::int64_t const groups = (packs + map_columns - 1) / map_columns;
  std::int64_t const maps = std::int64_t{pixels} * channels;
  for_chunks(batch, groups, [&](std::int64_t first, std::int64_t samples) {
    launch(global_avg_pool_kernel<N, T>, Grid{blocks_for(samples * groups, 1)},
           map_columns * map_lines, stream, Divider{groups}, packs, pixels, x + first * maps,
           y + first * channels);
  });
}

template <int N, class T>
void global_avg_pool_gradient(Stream const& stream, int batch, int channels, int pixels,
                              T const* dy, T* dx) {
  int const runs = (pixels + map_run - 1) / map_run;
  launch_images(global_avg_pool_gradient_kernel<N, T>, stream, batch, {{1, runs}, channels, N},
                channels, pixels, dy, dx);
}

}  // namespace detail

/// y = mean(x) of each map.
///
/// Shapes: x (B, pixels, C); y (B, C).
/// Cost:   reads each element once; bound by memory.
/// Order:  pixel p goes to sum p mod 8, and the 8 sums are added in order, in ComputeType.
/// Source: Lin, Chen, Yan, arXiv:1312.4400, section 3.2
template <class T>
void global_avg_pool_forward(Stream const& stream, int batch, int channels, int pixels, T const* x,
                             T* y) {
  if (packs_channels(channels, x, y)) {
    detail::global_avg_pool_forward<full_pack<T>>(stream, batch, channels, pixels, x, y);
  } else {
    detail::global_avg_pool_forward<1>(stream, batch, channels, pixels, x, y);
  }
}

/// dx = dy / pixels at each pixel of a map.
///
/// Shapes: dy (B, C); dx (B, pixels, C).
/// Cost:   writes each element once; bound by memory.
template <class T>
void global_avg_pool_gradient(Stream const& stream, int batch, int channels, int pixels,
                              T const* dy, T* dx) {
  if (packs_channels(channels, dy, dx)) {
    detail::global_avg_pool_gradient<full_pack<T>>(stream, batch, channels, pixels, dy, dx);
  } else {
    detail::global_avg_pool_gradient<1>(stream, batch, channels, pixels, dy, dx);
  }
}

}  // namespace tandem::cuda
