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

template <int Lanes, class T, class Labels>
TANDEM_KERNEL void top_k_kernel(T const* outputs, Labels labels, std::int64_t rows, int classes,
                                int k, double* right) {
  await_previous();
  using Real = ComputeType<T>;
  __shared__ int label_of[row_threads / Lanes];
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  if (place.lane == 0) {
    label_of[threadIdx.x / Lanes] = place.works ? labels(place.row) : -1;
  }
  __syncthreads();
  int const label = label_of[threadIdx.x / Lanes];
  int ahead = 0;  // outputs that come before the label's
  if (label >= 0) {
    T const* const y = outputs + place.row * classes;
    Real const own = load(y[label]);
    for (int c = place.lane; c < classes; c += Lanes) {
      Real const other = load(y[c]);
      bool const is_first = !(other <= own) || (other == own && c < label);  // also a NaN
      ahead += is_first ? 1 : 0;
    }
  }
  int const all = sum_lanes<Lanes>(ahead);
  if (place.works && place.lane == 0) {
    Real const own = label >= 0 ? load(outputs[place.row * classes + label]) : Real{0};
    right[place.row] = label >= 0 && own == own && all < k ? 1.0 : 0.0;
  }
}

}  // namespace detail

/// right[s] = whether the label of sample s is among its k largest outputs, and *count = their sum.
///
/// Shapes: outputs (B, C), labels (B) by function; right (B), scratch.
/// Cost:   reads the outputs once. Two launches.
/// Of equal outputs the lowest class ranks first; a NaN ranks before the label's output, and where
/// that is one the sample is never right.
/// @param labels  of a sample its label in [0, C), or -1, which is never right: LabelOf, LargestOf
/// @pre    k >= 1
template <class T, class Labels>
void top_k_count(Stream const& stream, T const* outputs, Labels const& labels, std::int64_t batch,
                 int classes, int k, double* right, double* count) {
  with_row_lanes(classes, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::top_k_kernel<n, T, Labels>, blocks_for(batch, row_threads / n), row_threads,
           stream, outputs, labels, batch, classes, k, right);
  });
  ordered_sum(stream, right, batch, 1.0, count);
}

}  // namespace tandem::cuda
