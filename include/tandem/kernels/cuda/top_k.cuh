// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How many samples have their label among the k largest outputs.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

template <int Lanes, class T>
TANDEM_KERNEL void top_k_kernel(T const* outputs, std::int32_t const* labels, std::int64_t rows,
                                int classes, int k, double* right) {
  using Real = ComputeType<T>;
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  int ahead = 0;  // outputs that come before the label's
  if (place.works) {
    T const* const y = outputs + place.row * classes;
    int const label = labels[place.row];
    Real const own = load(y[label]);
    for (int c = place.lane; c < classes; c += Lanes) {
      Real const other = load(y[c]);
      bool const is_first = !(other <= own) || (other == own && c < label);  // also a NaN
      ahead += is_first ? 1 : 0;
    }
  }
  int const all = sum_lanes<Lanes>(ahead);
  if (place.works && place.lane == 0) {
    Real const own = load(outputs[place.row * classes + labels[place.row]]);
    right[place.row] = own == own && all < k ? 1.0 : 0.0;
  }
}

}  // namespace detail

/// right[s] = whether the label of sample s is among its k largest outputs, and *count = their sum.
///
/// Shapes: outputs (B, C), labels (B); right (B), scratch.
/// Cost:   reads the outputs once. Two launches.
/// Of equal outputs the lowest class ranks first; a NaN ranks before the label's output, and where
/// that is one the sample is never right.
/// @pre    0 <= labels[s] < C, k >= 1
template <class T>
void top_k_count(Stream const& stream, T const* outputs, std::int32_t const* labels,
                 std::int64_t batch, int classes, int k, double* right, double* count) {
  with_row_lanes(classes, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::top_k_kernel<n, T>, blocks_for(batch, row_threads / n), row_threads, stream,
           outputs, labels, batch, classes, k, right);
  });
  ordered_sum(stream, right, batch, 1.0, count);
}

}  // namespace tandem::cuda
