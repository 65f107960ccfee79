// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Additive attention between its products: scores, a softmax that knows lengths, its gradient, and
/// the normalised vector of the scores.

#include <cmath>
#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/bahdanau_rows.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/softmax_cross_entropy.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// One block: scale = g / |v|.
template <class R>
TANDEM_KERNEL void additive_scale_kernel(std::int64_t n, R const* v, R const* g, R* scale) {
  await_previous();
  R own = 0;
  for (std::int64_t i = static_cast<int>(threadIdx.x); i < n; i += row_threads) {
    own += v[i] * v[i];
  }
  R const squares = sum_lanes<row_threads>(own);
  if (threadIdx.x == 0) {
    using std::sqrt;
    *scale = *g / sqrt(squares);
  }
}

/// One block: the gradients of v and g from that of g v / |v|.
template <class R>
TANDEM_KERNEL void additive_scale_gradient_kernel(std::int64_t n, R const* v, R const* g,
                                                  R const* dunit, R* dv, R* dg, bool accumulate) {
  await_previous();
  __shared__ R of_v[2];  // |v|², and dunit along v
  R squares = 0;
  R along = 0;
  for (std::int64_t i = static_cast<int>(threadIdx.x); i < n; i += row_threads) {
    squares += v[i] * v[i];
    along += dunit[i] * v[i];
  }
  squares = sum_lanes<row_threads>(squares);
  __syncthreads();
  along = sum_lanes<row_threads>(along);
  if (threadIdx.x == 0) {
    of_v[0] = squares;
    of_v[1] = along;
  }
  __syncthreads();
  using std::sqrt;
  R const inverse = R{1} / sqrt(of_v[0]);
  for (std::int64_t i = static_cast<int>(threadIdx.x); i < n; i += row_threads) {
    R const own = *g * inverse * (dunit[i] - v[i] * of_v[1] / of_v[0]);
    dv[i] = accumulate ? dv[i] + own : own;
  }
  if (threadIdx.x == 0) {
    R const own = of_v[1] * inverse;
    *dg = accumulate ? *dg + own : own;
  }
}

/// Lanes of a row for each pair of a query and a key.
template <int Lanes, class R>
TANDEM_KERNEL void additive_scores_kernel(AdditiveRows rows, AdditiveTerms<R> terms, R lowest,
                                          R* scores) {
  await_previous();
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows.scores()};
  std::int64_t const query = place.works ? place.row / rows.apart : 0;
  std::int64_t const sample = query / rows.queries;
  std::int64_t const j = place.row - query * rows.apart;
  bool const counts = place.works && j < rows.length(sample);
  R own = 0;
  for (std::int64_t h = place.lane; counts && h < rows.hidden; h += Lanes) {
    own += terms.v[h] * terms.tanh(query, sample * rows.keys + j, rows.hidden, h);
  }
  R const score = sum_lanes<Lanes>(own);
  if (place.works && place.lane == 0) {
    scores[place.row] = counts ? terms.scale[0] * score : lowest;
  }
}

/// Lanes of a row for each query. No key counts: all are 0.
template <int Lanes, class R, class T>
TANDEM_KERNEL void additive_softmax_kernel(AdditiveRows rows, R const* scores, R lowest, T* p) {
  await_previous();
  __shared__ SoftmaxPart<R> parts[row_threads / Lanes];
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows.query_rows()};
  std::int64_t const first = place.works ? place.row * rows.apart : 0;
  int const columns = static_cast<int>(rows.apart);
  auto const own = softmax_row<Lanes>(scores + first, columns, place.lane, place.works, lowest);
  if (place.lane == 0) {
    parts[threadIdx.x / Lanes] = own;
  }
  __syncthreads();
  SoftmaxPart<R> const part = parts[threadIdx.x / Lanes];
  R const share = part.total > 0 ? R{1} / static_cast<R>(part.total) : R{0};
  for (int j = place.lane; place.works && j < columns; j += Lanes) {
    p[first + j] = store<T>(softmax_term(scores[first + j], part.largest, lowest) * share);
  }
}

/// Lanes of a row for each query; scores behind the length are left alone.
template <int Lanes, class R, class T>
TANDEM_KERNEL void additive_softmax_gradient_kernel(AdditiveRows rows, T const* p, R* ds) {
  await_previous();
  __shared__ R sums[row_threads / Lanes];
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows.query_rows()};
  std::int64_t const first = place.works ? place.row * rows.apart : 0;
  std::int64_t const length = place.works ? rows.length(place.row / rows.queries) : 0;
  R own = 0;
  for (std::int64_t j = place.lane; j < length; j += Lanes) {
    own += load(p[first + j]) * ds[first + j];
  }
  R const sum = sum_lanes<Lanes>(own);
  if (place.lane == 0) {
    sums[threadIdx.x / Lanes] = sum;
  }
  __syncthreads();
  R const mean = sums[threadIdx.x / Lanes];
  for (std::int64_t j = place.lane; j < length; j += Lanes) {
    ds[first + j] = load(p[first + j]) * (ds[first + j] - mean);
  }
}

}  // namespace detail

/// scale = g / |v|, in device memory as all else. One block.
///
/// Order: every 256th number, then as in join_lanes().
template <class R>
void additive_scale(Stream const& stream, std::int64_t n, R const* v, R const* g, R* scale) {
  launch(detail::additive_scale_kernel<R>, 1, row_threads, stream, n, v, g, scale);
}

/// dv and dg = [+=] of the gradient of g v / |v|. One block.
template <class R>
void additive_scale_gradient(Stream const& stream, std::int64_t n, R const* v, R const* g,
                             R const* dunit, R* dv, R* dg, bool accumulate) {
  launch(detail::additive_scale_gradient_kernel<R>, 1, row_threads, stream, n, v, g, dunit, dv, dg,
         accumulate);
}

/// scores = unit·tanh(q + k + bias) of each query and key; minus infinity behind a sample's length.
///
/// Shapes: as AdditiveTerms; scores (B, Tq, apart).
/// Cost:   B Tq Tk H multiply-accumulates and hyperbolic tangents; bound by the latter.
/// Order:  every 32nd number (256th of more than 1024), then join_lanes().
template <class R>
void additive_scores(Stream const& stream, AdditiveRows const& rows, AdditiveTerms<R> const& terms,
                     R* scores) {
  constexpr R lowest = -std::numeric_limits<R>::infinity();
  with_row_lanes(rows.hidden, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::additive_scores_kernel<n, R>, blocks_for(rows.scores(), row_threads / n),
           row_threads, stream, rows, terms, lowest, scores);
  });
}

/// p = softmax(scores) of each query; 0 behind a sample's length.
///
/// Shapes: scores, p (B, Tq, apart); p may be scores.
/// Order:  as softmax_forward().
template <class R, class T>
void additive_softmax(Stream const& stream, AdditiveRows const& rows, R const* scores, T* p) {
  constexpr R lowest = -std::numeric_limits<R>::infinity();
  with_row_lanes(rows.apart, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::additive_softmax_kernel<n, R, T>, blocks_for(rows.query_rows(), row_threads / n),
           row_threads, stream, rows, scores, lowest, p);
  });
}

/// ds = p (ds - Σ p ds) of the keys that count, in place.
template <class R, class T>
void additive_softmax_gradient(Stream const& stream, AdditiveRows const& rows, T const* p, R* ds) {
  with_row_lanes(rows.apart, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::additive_softmax_gradient_kernel<n, R, T>,
           blocks_for(rows.query_rows(), row_threads / n), row_threads, stream, rows, p, ds);
  });
}

}  // namespace tandem::cuda
