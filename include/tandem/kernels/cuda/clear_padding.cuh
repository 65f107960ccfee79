// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Zeros in the rows of a step that do not count.

#include <cstdint>

#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// A block a row, in turns.
template <class T>
TANDEM_KERNEL void clear_padding_kernel(AttentionRows rows, std::int64_t width, T* y) {
  await_previous();
  std::int64_t const all = std::int64_t{rows.batch} * rows.time;
  for (std::int64_t row = blockIdx.x; row < all; row += gridDim.x) {
    if (row % rows.time < rows.length(row / rows.time)) {
      continue;
    }
    for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) {
      y[row * width + i] = T{};
    }
  }
}

}  // namespace detail

/// y = 0 in the rows behind each sample's length, whatever stands there.
///
/// Shapes: y (batch, time, width).
/// Cost:   writes those rows once. One launch; none without lengths.
template <class T>
void clear_padding(Stream const& stream, AttentionRows const& rows, std::int64_t width, T* y) {
  if (rows.lengths != nullptr) {
    launch(detail::clear_padding_kernel<T>, blocks_for(std::int64_t{rows.batch} * rows.time, 1),
           128, stream, rows, width, y);
  }
}

}  // namespace tandem::cuda
