// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// sum_of_squares: the squared norm of n numbers in double, the same bits on every device.

#include <cstdint>

#include <cub/block/block_reduce.cuh>

#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

inline constexpr int norm_threads = 256;
inline constexpr int norm_lanes =
    4;  // independent sums of a thread, so that four reads are in flight

/// A function of n only, so that the order of the sum is too.
constexpr std::int64_t norm_blocks(std::int64_t n) {
  std::int64_t const blocks = (n + norm_threads * 16 - 1) / (norm_threads * 16);
  return blocks < 1 ? 1 : blocks < 1024 ? blocks : 1024;
}

struct Square {
  TANDEM_HOST_DEVICE double operator()(double x) const { return x * x; }
};
struct Itself {
  TANDEM_HOST_DEVICE double operator()(double x) const { return x; }
};

/// partial[block] = the sum of term(x[i]) over the block's elements.
template <class T, class Term>
TANDEM_KERNEL void norm_kernel(std::int64_t n, T const* x, Term term, double* partial) {
  using Reduce = cub::BlockReduce<double, norm_threads>;
  __shared__ typename Reduce::TempStorage storage;
  double lane[norm_lanes] = {};
  std::int64_t const stride = std::int64_t{gridDim.x} * norm_threads;
  std::int64_t i = std::int64_t{blockIdx.x} * norm_threads + static_cast<int>(threadIdx.x);
  for (; i + (norm_lanes - 1) * stride < n; i += norm_lanes * stride) {
    for (int j = 0; j < norm_lanes; ++j) {
      lane[j] += term(static_cast<double>(load(x[i + j * stride])));
    }
  }
  for (; i < n; i += stride) {
    lane[0] += term(static_cast<double>(load(x[i])));
  }
  double const total = Reduce(storage).Sum((lane[0] + lane[1]) + (lane[2] + lane[3]));
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = total;
  }
}

}  // namespace detail

/// Scratch memory for sum_of_squares of @p n elements.
constexpr std::int64_t sum_of_squares_scratch_bytes(std::int64_t n) {
  return detail::norm_blocks(n) * static_cast<std::int64_t>(sizeof(double));
}

/// *result = x[0]² + … + x[n - 1]², squared and added in double; 0 for n = 0.
///
/// Order: blocks, threads and 4 lanes whose shares are functions of n, then the blocks in the order
///        of their own block; the same on every device.
/// Cost:  reads n elements; bound by memory.
/// @pre   result (one double) and scratch (sum_of_squares_scratch_bytes(n), aligned as a double)
/// are
///        in device memory
template <class T>
void sum_of_squares(Stream const& stream, T const* x, std::int64_t n, double* result,
                    void* scratch) {
  std::int64_t const blocks = detail::norm_blocks(n);
  auto* const partial = static_cast<double*>(scratch);
  launch(detail::norm_kernel<T, detail::Square>, Grid{static_cast<unsigned>(blocks)},
         detail::norm_threads, stream, n, x, detail::Square{}, partial);
  launch(detail::norm_kernel<double, detail::Itself>, Grid{1}, detail::norm_threads, stream, blocks,
         static_cast<double const*>(partial), detail::Itself{}, result);
}

}  // namespace tandem::cuda
