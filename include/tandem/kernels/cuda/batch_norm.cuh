// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Batch normalisation of each channel over the rows, in training; a ReLU behind it may be fused.
///
/// The gradients stand in batch_norm_gradient.cuh, the kernels with constant statistics in
/// batch_norm_evaluation.cuh. Source: Ioffe, Szegedy, arXiv:1502.03167, section 3.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/batch_norm_moments.cuh>
#include <tandem/kernels/cuda/column_map.cuh>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/functors/batch_norm_saved.hpp>
#include <tandem/kernels/functors/rectifier.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// The map of N columns, y = (x - center) * scale + shift, and the ReLU behind it.
///
/// Forward and the mask of the gradients share these functions: fma() leaves the compiler no choice
/// of rounding, so that a gradient masks exactly where forward has written a 0.
template <class T, int N>
struct BatchNormColumns {
  using Real = ComputeType<T>;
  Real center[N];
  Real scale[N];
  Real shift[N];

  TANDEM_HOST_DEVICE Real affine(int v, T x) const {
    using std::fma;
    return fma(load(x) - center[v], scale[v], shift[v]);
  }
  /// y <= 0, where a ReLU passes no gradient; false for a NaN, as in PyTorch.
  TANDEM_HOST_DEVICE bool masks(int v, T x) const {
    return load(store<T>(affine(v, x))) <= Real{0};
  }
};

/// Where the columns' constants come from: the batch's statistics or, with `running`, the running
/// ones, of which `spread` is the variance and not yet 1 / sqrt(variance + epsilon).
template <class P>
struct BatchNormSource {
  P const* gain;
  P const* bias;
  P const* center;
  P const* spread;
  P epsilon;
  bool running;

  template <class Real, int N>
  TANDEM_HOST_DEVICE void inverses(int column, Real (&inverse)[N]) const {
    using std::sqrt;
    load_constants(spread + column, inverse);
    for (int v = 0; running && v < N; ++v) {
      inverse[v] = Real{1} / sqrt(inverse[v] + static_cast<Real>(epsilon));
    }
  }

  template <class T, int N>
  TANDEM_HOST_DEVICE BatchNormColumns<T, N> columns(int column) const {
    using Real = ComputeType<T>;
    BatchNormColumns<T, N> result;
    Real inverse[N];
    inverses(column, inverse);
    load_constants(center + column, result.center);
    load_constants(gain + column, result.scale);
    load_constants(bias + column, result.shift);
    for (int v = 0; v < N; ++v) {
      result.scale[v] *= inverse[v];
    }
    return result;
  }
};

template <class T, int N, class P>
struct BatchNormMap {
  using Real = ComputeType<T>;
  using Values = Pack<T, N>;
  using Columns = BatchNormColumns<T, N>;

  T const* x;
  T* y;
  RowStrides strides;
  BatchNormSource<P> source;
  bool relu;
  bool whole;

  TANDEM_HOST_DEVICE Columns columns(int column) const {
    return source.template columns<T, N>(column);
  }
  TANDEM_HOST_DEVICE Values values(std::int64_t row, int column) const {
    return load_columns<N>(x + row * strides.x + column, whole);
  }
  TANDEM_HOST_DEVICE void put(std::int64_t row, int column, Columns const& columns,
                              Values values) const {
    for (int v = 0; v < N; ++v) {
      Real const r = columns.affine(v, values.value[v]);
      values.value[v] = store<T>(relu ? Rectify{}(r) : r);
    }
    store_columns<N>(y + row * strides.y + column, values, whole);
  }
};

template <class T, class P>
void batch_norm_apply(Stream const& stream, T const* x, std::int64_t rows, int channels,
                      BatchNormSource<P> const& source, bool relu, T* y, RowStrides own) {
  RowStrides const strides = own.of(channels);
  bool const whole = aligned(x, y) && strides.keep_aligned<T>();
  column_map<T>(stream, rows, channels, [=](auto width) {
    return BatchNormMap<T, decltype(width)::value, P>{x, y, strides, source, relu, whole};
  });
}

}  // namespace detail

/// Scratch of batch_norm_forward and batch_norm_gradient_sums for at most @p rows rows.
template <class T>
constexpr std::int64_t batch_norm_scratch_bytes(std::int64_t rows, int channels) {
  return batch_norm_moments_scratch_bytes<T>(rows, channels);
}

/// y = (x - mean(x)) / sqrt(var(x) + epsilon) * gain + bias, each channel over the rows; then
/// max(y, 0) with @p relu.
///
/// Shapes: x (rows, C), gain, bias (C); y (rows, C), which may be x if x is not needed again; both
///         may be slices of wider rows.
/// Saves:  mean, inverse deviation and biased variance.
/// Cost:   reads x twice, writes y once; bound by memory. Two launches.
/// Order:  that of batch_norm_moments.
/// @pre    scratch has batch_norm_scratch_bytes<T>(rows, C)
template <class T, class P>
void batch_norm_forward(Stream const& stream, T const* x, std::int64_t rows, int channels,
                        P const* gain, P const* bias, P epsilon, bool relu, T* y,
                        BatchNormSaved<P> const& saved, std::byte* scratch,
                        RowStrides strides = {}) {
  if (rows == 0) {
    return;
  }
  batch_norm_moments(stream, x, rows, channels, epsilon, saved.mean, saved.inverse_deviation,
                     saved.variance, scratch, strides.x);
  detail::batch_norm_apply(
      stream, x, rows, channels,
      detail::BatchNormSource<P>{gain, bias, saved.mean, saved.inverse_deviation, epsilon, false},
      relu, y, strides);
}

}  // namespace tandem::cuda
