// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Learnt positions: a table of rows, one of each time, is added to each sample.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tandem/kernels/cuda/column_map.cuh>
#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Scratch of positions_gradient for at most so many samples of at most so many elements.
template <class T>
constexpr std::int64_t positions_scratch_bytes(std::int64_t batch, int elements) {
  // Fewer elements may have more chunks, but the blocks of column_tiles are limited.
  constexpr std::int64_t most_partial = std::int64_t{256} * 32 * full_pack<T>;
  return std::max(column_sum_scratch_bytes<T>(batch, elements),
                  most_partial * static_cast<std::int64_t>(sizeof(ComputeType<T>)));
}

/// y[b] = x[b] + the first elements of the table, for each sample.
///
/// Shapes: x, y (batch, elements), y may be x, elements = time C; table (T C), of which the first
///         `elements` are read.
/// Cost:   reads x and writes y once; bound by memory. One launch.
template <class T, class P>
void positions_forward(Stream const& stream, T const* x, P const* table, std::int64_t batch,
                       int elements, T* y) {
  add_bias(stream, x, y, table, batch, elements);
}

/// gradient = [+=] the sum of dy over the samples, at the first elements; the rest = [+=] 0.
///
/// Shapes: dy (batch, elements), gradient (all), elements <= all.
/// Cost:   reads dy once and writes the gradient; bound by memory.
/// Order:  that of column_reduction; with @p accumulate the sum is added as one term.
/// @pre    scratch has positions_scratch_bytes<T>(batch, all)
template <class T, class P>
void positions_gradient(Stream const& stream, T const* dy, std::int64_t batch, int elements,
                        std::int64_t all, P* gradient, bool accumulate, std::byte* scratch) {
  column_sum(stream, dy, batch, elements, gradient, accumulate, scratch);
  if (!accumulate) {
    fill(stream, gradient + elements, all - elements, P{0});
  }
}

}  // namespace tandem::cuda
