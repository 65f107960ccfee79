// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sums of what a criterion gives for each row of a microbatch.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// One block; each thread adds every row_threads-th row, and the threads' sums meet in a tree: an
/// order that depends on the number of rows alone.
template <class T>
TANDEM_KERNEL void criterion_sum_kernel(std::int64_t rows, T const* output, double* loss,
                                        double* right) {
  await_previous();
  double sum = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += row_threads) {
    T const* const own = output + 3 * row;
    sum += loss != nullptr ? static_cast<double>(load(own[0])) + static_cast<double>(load(own[1]))
                           : static_cast<double>(load(own[2]));
  }
  double const all = sum_lanes<row_threads>(sum);
  if (threadIdx.x == 0) {
    *(loss != nullptr ? loss : right) = all;
  }
}

}  // namespace detail

/// *loss = the sum of the losses, or *right = that of the rows that are right: of @p output (rows,
/// 3), see PerToken. One of both is null.
/// Cost: reads the output once, by one block.
template <class T>
void criterion_sum(Stream const& stream, std::int64_t rows, T const* output, double* loss,
                   double* right) {
  launch(detail::criterion_sum_kernel<T>, 1, row_threads, stream, rows, output, loss, right);
}

}  // namespace tandem::cuda
