// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The gradients of batch_norm_forward: one pass of sums, which both of them use, then each.
///
/// With a fused ReLU, dy below stands for dy where y > 0 and 0 elsewhere; y is computed again.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/batch_norm.cuh>
#include <tandem/kernels/cuda/batch_norm_evaluation.cuh>
#include <tandem/kernels/cuda/column_map.cuh>
#include <tandem/kernels/cuda/column_reduction.cuh>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// What the sums and dx read: x and dy of N columns, dy masked.
template <class T, int N, class P>
struct BatchNormGradientInput {
  using Real = ComputeType<T>;
  using Values = BatchNormValues<T, N>;

  T const* x;
  T const* dy;
  RowStrides strides;
  BatchNormSource<P> source;
  bool relu;
  bool whole;

  TANDEM_HOST_DEVICE Values values(std::int64_t row, int column) const {
    return {load_columns<N>(x + row * strides.x + column, whole),
            load_columns<N>(dy + row * strides.y + column, whole)};
  }
  TANDEM_HOST_DEVICE Real gradient(BatchNormColumns<T, N> const& columns, Values const& values,
                                   int v) const {
    return relu && columns.masks(v, values.x.value[v]) ? Real{0} : load(values.dy.value[v]);
  }
};

/// dy and dy (x - mean).
template <class T, int N, class P>
struct BatchNormSumsTerm : BatchNormGradientInput<T, N, P> {
  using Input = BatchNormGradientInput<T, N, P>;
  using Real = ComputeType<T>;
  using Columns = BatchNormColumns<T, N>;
  using typename Input::Values;
  static constexpr int sums = 2;

  TANDEM_HOST_DEVICE Columns columns(int column) const {
    return this->source.template columns<T, N>(column);
  }
  TANDEM_HOST_DEVICE void add(Columns const& columns, Values const& values,
                              Real (&sum)[sums][N]) const {
    for (int v = 0; v < N; ++v) {
      Real const g = this->gradient(columns, values, v);
      sum[0][v] += g;
      sum[1][v] += g * (load(values.x.value[v]) - columns.center[v]);
    }
  }
};

/// What channel @p c gets of batch_norm_weight_gradient.
template <class P>
TANDEM_HOST_DEVICE void put_weight_gradient(std::int64_t c, BatchNormSaved<P> const& saved, P share,
                                            P unbiased_share, BatchNormGradients<P> const& to,
                                            bool accumulate) {
  P const dy_xhat = static_cast<P>(static_cast<double>(saved.sum_dy_x[c]) *
                                   static_cast<double>(saved.inverse_deviation[c]));
  to.gain[c] = add_rounded(dy_xhat, accumulate ? to.gain[c] : P{0});
  to.bias[c] = saved.sum_dy[c] + (accumulate ? to.bias[c] : P{0});
  P const mean = saved.mean[c] + (to.absorbed != nullptr ? to.absorbed[c] : P{0});
  to.mean[c] = add_rounded(share * mean, accumulate ? to.mean[c] : P{0});
  to.variance[c] =
      add_rounded(unbiased_share * saved.variance[c], accumulate ? to.variance[c] : P{0});
  if (to.absorbed_gradient != nullptr && !accumulate) {
    to.absorbed_gradient[c] = P{0};
  }
}

/// What the weight gradient of a microbatch is made of, and where it goes.
template <class P>
struct BatchNormWeights {
  BatchNormSaved<P> saved;
  P share;
  P unbiased_share;
  BatchNormGradients<P> to;
  bool accumulate;

  BatchNormWeights(std::int64_t rows, double microbatch_share, BatchNormSaved<P> const& own,
                   BatchNormGradients<P> const& gradients, bool adds)
      : saved{own},
        share{static_cast<P>(microbatch_share)},
        unbiased_share{static_cast<P>(
            static_cast<double>(share) *
            (rows > 1 ? static_cast<double>(rows) / static_cast<double>(rows - 1) : 1.0))},
        to{gradients},
        accumulate{adds} {}

  TANDEM_HOST_DEVICE void operator()(int column) const {
    put_weight_gradient(column, saved, share, unbiased_share, to, accumulate);
  }
};

/// Sums alone.
struct NoBatchNormWeights {
  TANDEM_HOST_DEVICE void operator()(int /*column*/) const {}
};

template <class P, class Weights>
struct BatchNormSumsResult {
  P* sum_dy;
  P* sum_dy_x;
  Weights weights;

  TANDEM_HOST_DEVICE void operator()(int column, double const (&total)[2]) const {
    sum_dy[column] = static_cast<P>(total[0]);
    sum_dy_x[column] = static_cast<P>(total[1]);
    weights(column);
  }
};

/// dx = (dy - offset - (x - mean) slope) scale.
template <class T, int N, class P>
struct BatchNormGradientMap : BatchNormGradientInput<T, N, P> {
  using Input = BatchNormGradientInput<T, N, P>;
  using Real = ComputeType<T>;
  using typename Input::Values;
  struct Columns {
    BatchNormColumns<T, N> affine;
    Real offset[N];
    Real slope[N];
  };

  P const* sum_dy;
  P const* sum_dy_x;
  std::int64_t rows;
  T* dx;

  TANDEM_HOST_DEVICE Columns columns(int column) const {
    Columns result;
    result.affine = this->source.template columns<T, N>(column);
    Real const count = static_cast<Real>(rows);
    Real inverse[N];
    this->source.inverses(column, inverse);
    load_constants(sum_dy + column, result.offset);
    load_constants(sum_dy_x + column, result.slope);
    for (int v = 0; v < N; ++v) {
      result.offset[v] /= count;
      result.slope[v] = result.slope[v] / count * inverse[v] * inverse[v];
    }
    return result;
  }
  TANDEM_HOST_DEVICE void put(std::int64_t row, int column, Columns const& columns,
                              Values const& values) const {
    BatchNormColumns<T, N> const& affine = columns.affine;
    Pack<T, N> result;
    for (int v = 0; v < N; ++v) {
      Real const rest = this->gradient(affine, values, v) - columns.offset[v];
      Real const distance = load(values.x.value[v]) - affine.center[v];
      result.value[v] = store<T>((rest - distance * columns.slope[v]) * affine.scale[v]);
    }
    store_columns<N>(dx + row * this->strides.x + column, result, this->whole);
  }
};

template <class P>
TANDEM_KERNEL void batch_norm_weight_gradient_kernel(BatchNormWeights<P> weights, int channels) {
  await_previous();
  int const c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (c < channels) {
    weights(c);
  }
}

}  // namespace detail

/// saved.sum_dy = sum(dy), saved.sum_dy_x = sum(dy (x - mean)), each channel over the rows; and
/// what batch_norm_weight_gradient gives, where @p weights is BatchNormWeights.
///
/// Shapes: x, dy (rows, C), which may be slices of wider rows, gain, bias (C).
/// Cost:   reads x and dy once; bound by memory. One launch.
/// Order:  that of column_reduction.
/// @pre    scratch has batch_norm_scratch_bytes<T>(rows, C)
template <class T, class P, class Weights = detail::NoBatchNormWeights>
void batch_norm_gradient_sums(Stream const& stream, T const* x, T const* dy, std::int64_t rows,
                              int channels, P const* gain, P const* bias, bool relu,
                              BatchNormSaved<P> const& saved, std::byte* scratch,
                              RowStrides own = {}, Weights const& weights = {}) {
  detail::BatchNormSource<P> const source{gain, bias, saved.mean, saved.inverse_deviation,
                                          P{0}, false};
  RowStrides const strides = own.of(channels);
  bool const whole = aligned(x, dy) && strides.keep_aligned<T>();
  column_reduction<T>(
      stream, rows, channels, scratch,
      [=](auto width) {
        return detail::BatchNormSumsTerm<T, decltype(width)::value, P>{
            {x, dy, strides, source, relu, whole}};
      },
      detail::BatchNormSumsResult<P, Weights>{saved.sum_dy, saved.sum_dy_x, weights});
}

/// The gradient of batch_norm_forward to x, through mean and variance also:
/// dx = gain / deviation * (dy - mean(dy) - xhat mean(dy xhat)), xhat = (x - mean) / deviation.
///
/// Shapes: x, dy (rows, C), gain, bias (C); dx (rows, C), which may be dy. Strides: x's, also dx's,
///         and dy's.
/// Cost:   reads x and dy once, writes dx once; bound by memory.
/// @pre    batch_norm_gradient_sums has left its sums in @p saved
template <class T, class P>
void batch_norm_input_gradient(Stream const& stream, T const* x, T const* dy, std::int64_t rows,
                               int channels, P const* gain, P const* bias, bool relu,
                               BatchNormSaved<P> const& saved, T* dx, RowStrides own = {}) {
  detail::BatchNormSource<P> const source{gain, bias, saved.mean, saved.inverse_deviation,
                                          P{0}, false};
  RowStrides const strides = own.of(channels);
  bool const whole = aligned(x, dy, dx) && strides.keep_aligned<T>();
  column_map<T>(stream, rows, channels, [=](auto width) {
    return detail::BatchNormGradientMap<T, decltype(width)::value, P>{
        {x, dy, strides, source, relu, whole}, saved.sum_dy, saved.sum_dy_x, rows, dx};
  });
}

/// gain = [+=] sum(dy xhat), bias = [+=] sum(dy), mean = [+=] share * mean(x), variance = [+=]
/// share * var(x) * rows / (rows - 1); one row has no unbiased variance and passes the biased one.
/// With an absorbed bias mean = [+=] share * (mean(x) + it), and its gradient = [+=] 0.
///
/// Cost:   reads 5 C and writes 4 C elements.
/// @pre    batch_norm_gradient_sums has left its sums in @p saved
template <class P>
void batch_norm_weight_gradient(Stream const& stream, std::int64_t rows, int channels, double share,
                                BatchNormSaved<P> const& saved,
                                BatchNormGradients<P> const& gradients, bool accumulate) {
  constexpr int threads = 128;
  launch(detail::batch_norm_weight_gradient_kernel<P>, blocks_for(channels, threads), threads,
         stream, detail::BatchNormWeights<P>{rows, share, saved, gradients, accumulate}, channels);
}

}  // namespace tandem::cuda
