// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Batch normalisation with running statistics, which are constants to the gradients.
///
/// Each element is a fixed affine map of itself, so nothing depends on the batch's neighbours.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/batch_norm.cuh>
#include <tandem/kernels/cuda/column_map.cuh>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// x and dy of N neighbours.
template <class T, int N>
struct BatchNormValues {
  Pack<T, N> x;
  Pack<T, N> dy;
};

template <class T, int N, class P>
struct BatchNormEvaluationGradientMap {
  using Real = ComputeType<T>;
  using Values = BatchNormValues<T, N>;
  using Columns = BatchNormColumns<T, N>;

  T const* x;
  T const* dy;
  T* dx;
  RowStrides strides;
  BatchNormSource<P> source;
  bool relu;
  bool whole;

  TANDEM_HOST_DEVICE Columns columns(int column) const {
    return source.template columns<T, N>(column);
  }
  TANDEM_HOST_DEVICE Values values(std::int64_t row, int column) const {
    Values result{};
    result.dy = load_columns<N>(dy + row * strides.y + column, whole);
    if (relu) {
      result.x = load_columns<N>(x + row * strides.x + column, whole);
    }
    return result;
  }
  TANDEM_HOST_DEVICE void put(std::int64_t row, int column, Columns const& columns,
                              Values const& values) const {
    Pack<T, N> result;
    for (int v = 0; v < N; ++v) {
      bool const masked = relu && columns.masks(v, values.x.value[v]);
      result.value[v] = store<T>(masked ? Real{0} : load(values.dy.value[v]) * columns.scale[v]);
    }
    store_columns<N>(dx + row * strides.x + column, result, whole);
  }
};

}  // namespace detail

/// y = (x - running_mean) / sqrt(running_variance + epsilon) * gain + bias; max(y, 0) with @p relu.
///
/// Shapes: x (rows, C), the others (C); y (rows, C), which may be x.
/// Cost:   reads and writes each element once; bound by memory.
template <class T, class P>
void batch_norm_evaluation_forward(Stream const& stream, T const* x, std::int64_t rows,
                                   int channels, P const* gain, P const* bias,
                                   P const* running_mean, P const* running_variance, P epsilon,
                                   bool relu, T* y, RowStrides strides = {}) {
  detail::batch_norm_apply(
      stream, x, rows, channels,
      detail::BatchNormSource<P>{gain, bias, running_mean, running_variance, epsilon, true}, relu,
      y, strides);
}

/// dx = dy * gain / sqrt(running_variance + epsilon), and 0 where a fused ReLU had no y > 0.
///
/// Shapes: x, dy (rows, C), the others (C); dx (rows, C), which may be dy. Only @p relu reads x.
///         Strides: x's, also dx's, and dy's.
/// Cost:   reads and writes each element once; bound by memory.
template <class T, class P>
void batch_norm_evaluation_input_gradient(Stream const& stream, T const* x, T const* dy,
                                          std::int64_t rows, int channels, P const* gain,
                                          P const* bias, P const* running_mean,
                                          P const* running_variance, P epsilon, bool relu, T* dx,
                                          RowStrides own = {}) {
  RowStrides const strides = own.of(channels);
  bool const whole = aligned(dy, dx) && (!relu || aligned(x)) && strides.keep_aligned<T>();
  detail::BatchNormSource<P> const source{gain,    bias, running_mean, running_variance,
                                          epsilon, true};
  column_map<T>(stream, rows, channels, [=](auto width) {
    return detail::BatchNormEvaluationGradientMap<T, decltype(width)::value, P>{
        x, dy, dx, strides, source, relu, whole};
  });
}

}  // namespace tandem::cuda
