// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Cross entropy with a number wanted of each class: weights, soft labels, labels that are ignored.

#include <cmath>
#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/softmax_cross_entropy.cuh>
#include <tandem/kernels/functors/class_targets.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// A row's softmax, and of its a_c the sum and that of a_c (largest - z_c), for all of its lanes.
template <class Real>
struct ClassTargetsRow {
  SoftmaxPart<Real> softmax;
  double all;
  double distance;
};

struct ClassTargetsSums {
  double all;
  double distance;
};
struct AddClassTargets {
  TANDEM_HOST_DEVICE ClassTargetsSums operator()(ClassTargetsSums const& a,
                                                 ClassTargetsSums const& b) const {
    return {a.all + b.all, a.distance + b.distance};
  }
};

/// @pre  all threads of the block call it, once
template <int Lanes, class T, class Targets>
__device__ ClassTargetsRow<ComputeType<T>> class_targets_row(T const* logits, Targets const& wanted,
                                                             int classes,
                                                             RowPlace<Lanes> const& place,
                                                             ComputeType<T> lowest) {
  using Real = ComputeType<T>;
  __shared__ SoftmaxPart<Real> parts[row_threads / Lanes];
  __shared__ ClassTargetsSums sums[row_threads / Lanes];
  int const own = static_cast<int>(threadIdx.x) / Lanes;
  T const* const z = logits + (place.works ? place.row * classes : 0);
  auto const part = softmax_row<Lanes>(z, classes, place.lane, place.works, lowest);
  if (place.lane == 0) {
    parts[own] = part;
  }
  __syncthreads();
  Real const largest = parts[own].largest;
  ClassTargetsSums mine{0.0, 0.0};
  if (place.works && wanted.counts(place.row)) {
    for (int c = place.lane; c < classes; c += Lanes) {
      double const a = wanted(place.row, c);
      mine.all += a;
      mine.distance += a != 0.0 ? a * static_cast<double>(largest - load(z[c])) : 0.0;
    }
  }
  ClassTargetsSums const joined = join_lanes<Lanes>(mine, AddClassTargets{});
  if (place.lane == 0) {
    sums[own] = joined;
  }
  __syncthreads();
  return {parts[own], sums[own].all, sums[own].distance};
}

template <int Lanes, class T, class Targets>
TANDEM_KERNEL void class_targets_kernel(T const* logits, Targets wanted, std::int64_t rows,
                                        int classes, ComputeType<T> lowest, double* losses) {
  await_previous();
  using std::log;
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  auto const row = class_targets_row<Lanes>(logits, wanted, classes, place, lowest);
  if (place.works && place.lane == 0) {
    losses[place.row] =
        wanted.counts(place.row) ? row.all * log(row.softmax.total) + row.distance : 0.0;
  }
}

template <int Lanes, class T, class Targets>
TANDEM_KERNEL void class_targets_gradient_kernel(T const* logits, Targets wanted, std::int64_t rows,
                                                 int classes, ComputeType<T> lowest, double scale,
                                                 double const* row_scale, float const* loss_scale,
                                                 T* dlogits) {
  await_previous();
  using Real = ComputeType<T>;
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  auto const row = class_targets_row<Lanes>(logits, wanted, classes, place, lowest);
  if (!place.works) {
    return;
  }
  bool const counts = wanted.counts(place.row);
  double const mean = row_scale != nullptr ? *row_scale : scale;
  double const by = loss_scale != nullptr ? mean * static_cast<double>(*loss_scale) : mean;
  double const share = row.all / row.softmax.total;
  for (int c = place.lane; c < classes; c += Lanes) {
    std::int64_t const i = place.row * classes + c;
    double const p =
        static_cast<double>(softmax_term(load(logits[i]), row.softmax.largest, lowest));
    double const slope = counts ? (p * share - wanted(place.row, c)) * by : 0.0;
    dlogits[i] = store<T>(static_cast<Real>(slope));
  }
}

}  // namespace detail

/// losses[s] = -sum_c a_c log softmax(z)_c, and *loss = their sum.
///
/// Shapes: logits (B, C), a (B, C) by function; losses (B), scratch.
/// Cost:   reads the logits twice, the second time from a cache. Two launches.
/// Order:  as softmax_cross_entropy_forward(); then the classes likewise, in double.
/// A class with a_c = 0 takes no part, and a sample that does not count has the loss 0.
template <class T, class Targets>
void class_targets_forward(Stream const& stream, T const* logits, Targets const& wanted,
                           std::int64_t batch, int classes, double* losses, double* loss) {
  constexpr auto lowest = -std::numeric_limits<ComputeType<T>>::infinity();
  with_row_lanes(classes, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::class_targets_kernel<n, T, Targets>, blocks_for(batch, row_threads / n),
           row_threads, stream, logits, wanted, batch, classes, lowest, losses);
  });
  ordered_sum(stream, losses, batch, 1.0, loss);
}

/// dlogits = (softmax(z) sum(a) - a) * *row_scale, or scale where that is null, times *loss_scale
/// where that is not null; 0 for a sample that does not count.
///
/// Shapes: logits (B, C); dlogits (B, C), which may be logits.
/// Cost:   reads the logits three times, writes dlogits once.
template <class T, class Targets>
void class_targets_gradient(Stream const& stream, T const* logits, Targets const& wanted,
                            std::int64_t batch, int classes, double scale, double const* row_scale,
                            T* dlogits, float const* loss_scale = nullptr) {
  constexpr auto lowest = -std::numeric_limits<ComputeType<T>>::infinity();
  with_row_lanes(classes, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::class_targets_gradient_kernel<n, T, Targets>, blocks_for(batch, row_threads / n),
           row_threads, stream, logits, wanted, batch, classes, lowest, scale, row_scale,
           loss_scale, dlogits);
  });
}

}  // namespace tandem::cuda
