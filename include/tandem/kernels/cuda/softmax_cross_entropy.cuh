// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Softmax and cross entropy with label smoothing.
///
/// With C classes and smoothing e the target is q = (1 - e) [c == label] + e / C, as in PyTorch.

#include <cmath>
#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// exp(z - largest); 0 for a logit of minus infinity, whatever the largest is.
template <class Real>
TANDEM_HOST_DEVICE Real softmax_term(Real z, Real largest, Real lowest) {
  using std::exp;
  return z == lowest ? Real{0} : exp(z - largest);
}

/// The largest of some logits, the sum of exp(z - largest), and that of largest - z.
template <class Real>
struct SoftmaxPart {
  Real largest;
  double total;
  double distance;
  int count;
};

template <class Real>
struct MergeSoftmax {
  Real lowest;  ///< minus infinity

  using Part = SoftmaxPart<Real>;

  TANDEM_HOST_DEVICE Part operator()(Part const& a, Part const& b) const {
    if (b.count == 0) {
      return a;
    }
    if (a.count == 0) {
      return b;
    }
    Real const largest = a.largest > b.largest ? a.largest : b.largest;
    double const total = a.total * static_cast<double>(softmax_term(a.largest, largest, lowest)) +
                         b.total * static_cast<double>(softmax_term(b.largest, largest, lowest));
    double const distance = a.distance + a.count * static_cast<double>(largest - a.largest) +
                            b.distance + b.count * static_cast<double>(largest - b.largest);
    return {largest, total, distance, a.count + b.count};
  }
};

/// What a row's losses and gradients share, in its lane 0. Reads the row once: where a larger logit
/// comes, the sums so far are moved to it.
template <int Lanes, class T>
__device__ SoftmaxPart<ComputeType<T>> softmax_row(T const* z, int classes, int lane, bool works,
                                                   ComputeType<T> lowest) {
  using Real = ComputeType<T>;
  Real largest = lowest;
  Real total = 0;
  Real distance = 0;
  int count = 0;
  if (works) {
    for (int c = lane; c < classes; c += Lanes) {
      Real const value = load(z[c]);
      if (value > largest) {
        total *= softmax_term(largest, value, lowest);
        distance += count > 0 ? static_cast<Real>(count) * (value - largest) : Real{0};
        largest = value;
      }
      total += softmax_term(value, largest, lowest);
      distance += largest - value;
      ++count;
    }
  }
  SoftmaxPart<Real> const own{largest, static_cast<double>(total), static_cast<double>(distance),
                              count};
  return join_lanes<Lanes>(own, MergeSoftmax<Real>{lowest});
}

template <int Lanes, class T>
TANDEM_KERNEL void softmax_cross_entropy_kernel(T const* logits, std::int32_t const* labels,
                                                std::int64_t rows, int classes, double smoothing,
                                                ComputeType<T> lowest, double* losses) {
  await_previous();
  using std::log;
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  T const* const z = logits + (place.works ? place.row * classes : 0);
  auto const part = softmax_row<Lanes>(z, classes, place.lane, place.works, lowest);
  if (place.works && place.lane == 0) {
    double const normaliser = log(part.total);  // from the largest logit
    double const own = static_cast<double>(load(z[labels[place.row]]));
    double loss = (1 - smoothing) * (normaliser + (static_cast<double>(part.largest) - own));
    if (smoothing != 0) {
      loss += smoothing / classes * (classes * normaliser + part.distance);
    }
    losses[place.row] = loss;
  }
}

template <int Lanes, class T>
TANDEM_KERNEL void softmax_cross_entropy_gradient_kernel(T const* logits,
                                                         std::int32_t const* labels,
                                                         std::int64_t rows, int classes,
                                                         ComputeType<T> lowest, ComputeType<T> on,
                                                         ComputeType<T> off, ComputeType<T> scale,
                                                         float const* loss_scale, T* dlogits) {
  await_previous();
  using Real = ComputeType<T>;
  __shared__ SoftmaxPart<Real> parts[row_threads / Lanes];
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  std::int64_t const first = place.works ? place.row * classes : 0;
  auto const own = softmax_row<Lanes>(logits + first, classes, place.lane, place.works, lowest);
  if (place.lane == 0) {
    parts[threadIdx.x / Lanes] = own;
  }
  __syncthreads();
  if (!place.works) {
    return;
  }
  SoftmaxPart<Real> const part = parts[threadIdx.x / Lanes];
  Real const total = static_cast<Real>(part.total);
  int const label = labels[place.row];
  Real const by = loss_scale != nullptr ? scale * static_cast<Real>(*loss_scale) : scale;
  for (int c = place.lane; c < classes; c += Lanes) {
    Real const p = softmax_term(load(logits[first + c]), part.largest, lowest) / total;
    dlogits[first + c] = store<T>((p - (c == label ? on : off)) * by);
  }
}

}  // namespace detail

/// losses[s] = -sum_c q_c log softmax(z)_c, and *loss = their sum.
///
/// Shapes: logits (B, C), labels (B); losses (B), scratch.
/// Cost:   reads the logits once. Two launches.
/// Order:  a warp takes a row, or a block where C > 1024: every 32nd (256th) class in
///         ComputeType<T>, then join_lanes() in double; the samples as in ordered_sum().
/// @pre    0 <= labels[s] < C. A row with a NaN has the loss NaN.
/// Source: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, arXiv:1512.00567, section 7 (smoothing)
template <class T>
void softmax_cross_entropy_forward(Stream const& stream, T const* logits,
                                   std::int32_t const* labels, std::int64_t batch, int classes,
                                   double smoothing, double* losses, double* loss) {
  constexpr auto lowest = -std::numeric_limits<ComputeType<T>>::infinity();
  with_row_lanes(classes, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::softmax_cross_entropy_kernel<n, T>, blocks_for(batch, row_threads / n),
           row_threads, stream, logits, labels, batch, classes, smoothing, lowest, losses);
  });
  ordered_sum(stream, losses, batch, 1.0, loss);
}

/// dlogits = (softmax(z) - q) * scale, times *loss_scale where that is not null.
///
/// Shapes: logits (B, C), labels (B); dlogits (B, C), which may be logits.
/// Cost:   reads the logits twice, the second time from a cache, and writes dlogits once.
/// @pre    0 <= labels[s] < C
template <class T>
void softmax_cross_entropy_gradient(Stream const& stream, T const* logits,
                                    std::int32_t const* labels, std::int64_t batch, int classes,
                                    double smoothing, double scale, T* dlogits,
                                    float const* loss_scale = nullptr) {
  using Real = ComputeType<T>;
  constexpr Real lowest = -std::numeric_limits<Real>::infinity();
  double const elsewhere = smoothing / classes;
  with_row_lanes(classes, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::softmax_cross_entropy_gradient_kernel<n, T>, blocks_for(batch, row_threads / n),
           row_threads, stream, logits, labels, batch, classes, lowest,
           static_cast<Real>(1 - smoothing + elsewhere), static_cast<Real>(elsewhere),
           static_cast<Real>(scale), loss_scale, dlogits);
  });
}

}  // namespace tandem::cuda
