// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Softmax over the rows of a (rows, columns) matrix, and its gradient.

#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/softmax_cross_entropy.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

template <int Lanes, class T>
TANDEM_KERNEL void softmax_kernel(T const* x, std::int64_t rows, int columns, ComputeType<T> lowest,
                                  T* y) {
  await_previous();
  using Real = ComputeType<T>;
  __shared__ SoftmaxPart<Real> parts[row_threads / Lanes];
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  std::int64_t const first = place.works ? place.row * columns : 0;
  auto const own = softmax_row<Lanes>(x + first, columns, place.lane, place.works, lowest);
  if (place.lane == 0) {
    parts[threadIdx.x / Lanes] = own;
  }
  __syncthreads();
  SoftmaxPart<Real> const part = parts[threadIdx.x / Lanes];
  Real const share = Real{1} / static_cast<Real>(part.total);
  for (int c = place.lane; place.works && c < columns; c += Lanes) {
    y[first + c] = store<T>(softmax_term(load(x[first + c]), part.largest, lowest) * share);
  }
}

template <int Lanes, class T>
TANDEM_KERNEL void softmax_gradient_kernel(T const* y, T const* dy, std::int64_t rows, int columns,
                                           T* dx) {
  await_previous();
  using Real = ComputeType<T>;
  __shared__ Real sums[row_threads / Lanes];
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  std::int64_t const first = place.works ? place.row * columns : 0;
  Real own = 0;
  for (int c = place.lane; place.works && c < columns; c += Lanes) {
    own += load(y[first + c]) * load(dy[first + c]);
  }
  Real const sum = sum_lanes<Lanes>(own);
  if (place.lane == 0) {
    sums[threadIdx.x / Lanes] = sum;
  }
  __syncthreads();
  Real const mean = sums[threadIdx.x / Lanes];
  for (int c = place.lane; place.works && c < columns; c += Lanes) {
    dx[first + c] = store<T>(load(y[first + c]) * (load(dy[first + c]) - mean));
  }
}

}  // namespace detail

/// y = exp(x - max(x)) / the row's sum of these.
///
/// Shapes: x (rows, columns); y (rows, columns), which may be x.
/// Cost:   reads x twice, the second time from a cache, and writes y once; bound by memory.
/// Order:  a warp takes a row, or a block where there are more than 1024 columns: every 32nd
///         (256th) column in ComputeType<T>, then join_lanes() in double.
template <class T>
void softmax_forward(Stream const& stream, T const* x, std::int64_t rows, int columns, T* y) {
  constexpr auto lowest = -std::numeric_limits<ComputeType<T>>::infinity();
  with_row_lanes(columns, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::softmax_kernel<n, T>, blocks_for(rows, row_threads / n), row_threads, stream, x,
           rows, columns, lowest, y);
  });
}

/// dx = y (dy - sum(y dy)), y being the output.
///
/// Shapes: y, dy (rows, columns); dx (rows, columns), which may be either.
/// Cost:   reads y and dy twice, the second time from a cache, and writes dx once; bound by memory.
/// Order:  every 32nd (256th) column in ComputeType<T>, then join_lanes().
template <class T>
void softmax_gradient(Stream const& stream, T const* y, T const* dy, std::int64_t rows, int columns,
                      T* dx) {
  with_row_lanes(columns, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::softmax_gradient_kernel<n, T>, blocks_for(rows, row_threads / n), row_threads,
           stream, y, dy, rows, columns, dx);
  });
}

}  // namespace tandem::cuda
