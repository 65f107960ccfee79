// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The rows of a softmax over a vocabulary: each row's loss and whether it is right, and the
/// gradient over its logits in their place.

#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/softmax_cross_entropy.cuh>
#include <tandem/kernels/functors/vocabulary.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// What the gradient of a row is made of.
template <class Real>
struct VocabularyGradient {
  Real largest;
  Real lowest;
  Real total;
  int target;
  Real on;   ///< of q at the target
  Real off;  ///< of q elsewhere

  [[nodiscard]] TANDEM_HOST_DEVICE Real operator()(Real z, int c) const {
    return softmax_term(z, largest, lowest) / total - (c == target ? on : off);
  }
};

/// Where a row's target stands, and its logit.
template <class Real>
struct TargetLogit {
  Real own;
  int target;

  /// 1 if a logit ranks before the target's, or keeps it from being right.
  [[nodiscard]] TANDEM_HOST_DEVICE int before(Real z, int c) const {
    return !(z <= own) || (z == own && c < target) ? 1 : 0;
  }
};

/// A row of y: the loss, what rounding took of it, and whether it is right.
template <class T>
TANDEM_HOST_DEVICE void store_vocabulary_row(VocabularyRow const& row, T* y) {
  using Real = ComputeType<T>;
  y[0] = store<T>(static_cast<Real>(row.loss));
  y[1] = store<T>(static_cast<Real>(row.loss - static_cast<double>(load(y[0]))));
  y[2] = store<T>(static_cast<Real>(row.right));
}

template <int Lanes, class T>
TANDEM_KERNEL void vocabulary_rows_kernel(T* logits, std::int32_t const* targets, std::int64_t rows,
                                          int vocabulary, double smoothing, ComputeType<T> lowest,
                                          double const* scale, T* y) {
  await_previous();
  using Real = ComputeType<T>;
  __shared__ SoftmaxPart<Real> parts[row_threads / Lanes];
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  int const target = place.works && targets != nullptr ? targets[place.row] : -1;
  bool const works = target >= 0;
  T* const z = logits + (place.works ? place.row * vocabulary : 0);
  Real const own = works ? load(z[target]) : Real{0};  // before it is overwritten
  auto const lanes_part = softmax_row<Lanes>(z, vocabulary, place.lane, works, lowest);
  if (place.lane == 0) {
    parts[threadIdx.x / Lanes] = lanes_part;
  }
  __syncthreads();
  double const elsewhere = smoothing / vocabulary;
  SoftmaxPart<Real> const part = parts[threadIdx.x / Lanes];
  VocabularyGradient<Real> const row{part.largest,
                                     lowest,
                                     static_cast<Real>(part.total),
                                     target,
                                     static_cast<Real>(1 - smoothing + elsewhere),
                                     static_cast<Real>(elsewhere)};
  TargetLogit<Real> const at{own, target};
  Real const factor = scale != nullptr ? static_cast<Real>(*scale) : Real{0};
  int before = 0;
  for (int c = place.lane; place.works && c < vocabulary; c += Lanes) {
    Real const value = load(z[c]);
    before += works ? at.before(value, c) : 0;
    if (scale != nullptr) {
      z[c] = store<T>(works ? row(value, c) * factor : Real{0});
    }
  }
  int const all_before = sum_lanes<Lanes>(before);
  if (place.works && place.lane == 0 && y != nullptr) {
    double const largest = static_cast<double>(part.largest);
    double const sum = vocabulary * largest - part.distance;
    VocabularyRow const result = works
                                     ? vocabulary_row(largest, part.total, static_cast<double>(own),
                                                      sum, vocabulary, smoothing, all_before == 0)
                                     : VocabularyRow{};
    store_vocabulary_row(result, y + 3 * place.row);
  }
}

}  // namespace detail

/// The loss of row r is -sum_v q_v log softmax(z)_v, q = (1 - smoothing) [v = target] + smoothing /
/// V; y[r] becomes the loss, what rounding took of it, and 1 where the largest logit, the first of
/// equals, is the target's. With a gradient then z = (softmax(z) - q) *scale. A row without a
/// target (-1) has the loss 0 and the gradient 0.
///
/// Shapes: logits (rows, V); targets (rows), or null: no row has one; scale (1), or null: the
///         logits stay; y (rows, 3) or null. All in the device's memory.
/// Cost:   reads the logits twice, the second time from a cache, and writes them once if asked.
///         One launch.
/// Order:  a warp takes a row, or a block where V > 1024: every 32nd (256th) logit in
///         ComputeType<T>, then join_lanes() in double.
/// @pre    -1 <= targets[r] < V. A row with a NaN has the loss NaN and is not right.
/// Source: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, arXiv:1512.00567, section 7 (smoothing)
template <class T>
void vocabulary_rows(Stream const& stream, T* logits, std::int32_t const* targets,
                     std::int64_t rows, int vocabulary, double smoothing, double const* scale,
                     T* y) {
  constexpr auto lowest = -std::numeric_limits<ComputeType<T>>::infinity();
  with_row_lanes(vocabulary, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::vocabulary_rows_kernel<n, T>, blocks_for(rows, row_threads / n), row_threads,
           stream, logits, targets, rows, vocabulary, smoothing, lowest, scale, y);
  });
}

}  // namespace tandem::cuda
