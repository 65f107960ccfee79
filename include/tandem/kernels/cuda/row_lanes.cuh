// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What kernels share in which some threads of a block, its lanes, work on one row of a matrix; and
/// the sum of a vector in a fixed order.

#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#if TANDEM_DEVICE_CODE
#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cuda/std/functional>
#endif

#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Threads of a block that works on rows.
inline constexpr int row_threads = 256;

/// Lanes of a row of so many columns: a function of the size only, which fixes the order of sums.
constexpr bool takes_whole_block(std::int64_t columns) { return columns > 1024; }

/// The lane's place in a matrix of @p rows rows, in a block of row_threads / Lanes rows.
template <int Lanes>
struct RowPlace {
  int lane;
  std::int64_t row;
  bool works;

  TANDEM_HOST_DEVICE RowPlace(int thread, unsigned block, std::int64_t rows)
      : lane{thread % Lanes},
        row{static_cast<std::int64_t>(block) * (row_threads / Lanes) + thread / Lanes},
        works{row < rows} {}
};

namespace detail {

/// The addition that CUB's reductions know. Plain C++ reads its name alone.
#if TANDEM_DEVICE_CODE
using StdPlus = ::cuda::std::plus<>;
#else
struct StdPlus {};
#endif

/// Joins the values of a row's lanes; the result is in lane 0, the others get nothing of use.
///
/// Order: CUB's: in a warp lane i takes in lane i + d, d = 1, 2, 4, 8, 16; then warps in order.
/// @pre   all threads of the block call it, once
template <int Lanes, class Value, class Merge>
__device__ Value join_lanes(Value const& own, Merge const& merge) {
  static_assert(Lanes == 32 || Lanes == row_threads);
  using Reduce =
      std::conditional_t<Lanes == 32, cub::WarpReduce<Value>, cub::BlockReduce<Value, row_threads>>;
  __shared__ typename Reduce::TempStorage storage[row_threads / Lanes];
  return Reduce{storage[threadIdx.x / Lanes]}.Reduce(own, merge);
}

/// join_lanes() by addition.
template <int Lanes, class Value>
__device__ Value sum_lanes(Value own) {
  return join_lanes<Lanes>(own, StdPlus{});
}

template <class T>
TANDEM_KERNEL void ordered_sum_kernel(T const* x, std::int64_t n, T divisor, T* out) {
  await_previous();
  T own = 0;
  for (std::int64_t i = static_cast<int>(threadIdx.x); i < n; i += row_threads) {
    own += x[i];
  }
  T const total = sum_lanes<row_threads>(own);
  if (threadIdx.x == 0) {
    *out = total / divisor;
  }
}

}  // namespace detail

/// *out = (x[0] + … + x[n - 1]) / divisor.
///
/// Cost:   one block; for the few thousand partial results of another kernel.
/// Order:  a function of n only, unlike that of cub::DeviceReduce: element i goes to thread i mod
///         256; then as in join_lanes().
template <class T>
void ordered_sum(Stream const& stream, T const* x, std::int64_t n, T divisor, T* out) {
  launch(detail::ordered_sum_kernel<T>, 1, row_threads, stream, x, n, divisor, out);
}

/// f(std::integral_constant<int, Lanes>), Lanes as takes_whole_block says.
template <class Function>
void with_row_lanes(std::int64_t columns, Function const& f) {
  if (takes_whole_block(columns)) {
    f(std::integral_constant<int, row_threads>{});
  } else {
    f(std::integral_constant<int, 32>{});
  }
}

}  // namespace tandem::cuda
