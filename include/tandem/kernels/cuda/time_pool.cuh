// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The last row of each sample of a sequence, or the mean of its rows, and their gradient.
///
/// Rows that do not count are not read, and their gradient is 0.

#include <cstdint>
#include <type_traits>

#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/functors/time_pool.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// Lanes of a row for each sample.
template <int Lanes, int N, class T>
TANDEM_KERNEL void last_row_kernel(TimeRows rows, T const* x, T* y) {
  await_previous();
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows.batch};
  if (!place.works) {
    return;
  }
  T const* const from = x + rows.last(place.row) * rows.channels;
  T* const to = y + place.row * rows.channels;
  for (int c = place.lane * N; c < rows.channels; c += Lanes * N) {
    store_pack(to + c, load_pack<N>(from + c));
  }
}

/// Threads of a block next to one another, each with N channels, and below one another, which share
/// a sample's rows.
inline constexpr int mean_across = 32;
inline constexpr int mean_down = row_threads / mean_across;

/// Block (s, g) writes 32 N channels of sample s.
template <int N, class T>
TANDEM_KERNEL void mean_over_time_kernel(TimeRows rows, T const* x, T* y) {
  await_previous();
  using Real = ComputeType<T>;
  __shared__ Real shared[mean_down][N][mean_across];
  std::int64_t const sample = blockIdx.x;
  int const lane = static_cast<int>(threadIdx.x) % mean_across;
  int const down = static_cast<int>(threadIdx.x) / mean_across;
  int const channel = (static_cast<int>(blockIdx.y) * mean_across + lane) * N;
  int const count = rows.count(sample);
  Pack<Real, N> sum{};
  if (channel < rows.channels) {
    T const* const from = x + sample * rows.time * rows.channels + channel;
    for (int t = down; t < count; t += mean_down) {
      Pack<Real, N> const row = loaded(load_pack<N>(from + std::int64_t{t} * rows.channels));
      for (int v = 0; v < N; ++v) {
        sum.value[v] += row.value[v];
      }
    }
    for (int v = 0; v < N; ++v) {
      shared[down][v][lane] = sum.value[v];
    }
  }
  __syncthreads();
  if (down != 0 || channel >= rows.channels) {
    return;
  }
  for (int v = 0; v < N; ++v) {
    for (int d = 1; d < mean_down; ++d) {
      sum.value[v] += shared[d][v][lane];
    }
    sum.value[v] *= MeanShare::of<Real>(count);
  }
  store_pack(y + sample * rows.channels + channel, stored<T>(sum));
}

/// Lanes of a row for each row of dx.
template <int Lanes, int N, class Share, class T>
TANDEM_KERNEL void time_pool_gradient_kernel(TimeRows rows, T const* dy, T* dx) {
  await_previous();
  using Real = ComputeType<T>;
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows.all()};
  if (!place.works) {
    return;
  }
  T const* const from = dy + rows.sample(place.row) * rows.channels;
  T* const to = dx + place.row * rows.channels;
  Real const share = Share::template at<Real>(rows, place.row);
  for (int c = place.lane * N; c < rows.channels; c += Lanes * N) {
    Pack<Real, N> gradient{};
    if (share != Real{0}) {
      gradient = loaded(load_pack<N>(from + c));
      for (int v = 0; v < N; ++v) {
        gradient.value[v] *= share;
      }
    }
    store_pack(to + c, stored<T>(gradient));
  }
}

/// f(std::integral_constant<int, N>), N the channels that a thread takes at once.
template <class T, class Function>
void with_time_pack(TimeRows const& rows, T const* a, T const* b, Function const& f) {
  if (packs_channels(rows.channels, a, b)) {
    f(std::integral_constant<int, full_pack<T>>{});
  } else {
    f(std::integral_constant<int, 1>{});
  }
}

}  // namespace detail

/// y = the last row of each sample that counts.
///
/// Shapes: x (B, time, C); y (B, C); rows.lengths in device memory.
/// Cost:   reads and writes B C elements; one launch.
template <class T>
void last_row_forward(Stream const& stream, TimeRows const& rows, T const* x, T* y) {
  with_row_lanes(rows.channels, [&](auto lanes) {
    detail::with_time_pack<T>(rows, x, y, [&](auto width) {
      constexpr int n = decltype(lanes)::value;
      launch(detail::last_row_kernel<n, decltype(width)::value, T>,
             blocks_for(rows.batch, row_threads / n), row_threads, stream, rows, x, y);
    });
  });
}

/// y = mean(x) over the rows of each sample.
///
/// Shapes: x (B, time, C); y (B, C); rows.lengths in device memory.
/// Cost:   reads each row that counts once; bound by memory. One launch.
/// Order:  row t goes to sum t mod 8, and the 8 sums are added in order, in ComputeType<T>; the
///         same bits whatever the padding.
template <class T>
void mean_over_time_forward(Stream const& stream, TimeRows const& rows, T const* x, T* y) {
  detail::with_time_pack<T>(rows, x, y, [&](auto width) {
    constexpr int n = decltype(width)::value;
    Grid const grid{static_cast<unsigned>(rows.batch),
                    blocks_for(rows.channels, detail::mean_across * n)};
    launch(detail::mean_over_time_kernel<n, T>, grid, row_threads, stream, rows, x, y);
  });
}

/// dx = Share dy at each row of a sample: LastRowShare or MeanShare.
///
/// Shapes: dy (B, C); dx (B, time, C); rows.lengths in device memory.
/// Cost:   writes each row once; bound by memory. One launch.
template <class Share, class T>
void time_pool_gradient(Stream const& stream, TimeRows const& rows, T const* dy, T* dx) {
  with_row_lanes(rows.channels, [&](auto lanes) {
    detail::with_time_pack<T>(rows, dy, dx, [&](auto width) {
      constexpr int n = decltype(lanes)::value;
      launch(detail::time_pool_gradient_kernel<n, decltype(width)::value, Share, T>,
             blocks_for(rows.all(), row_threads / n), row_threads, stream, rows, dy, dx);
    });
  });
}

}  // namespace tandem::cuda
