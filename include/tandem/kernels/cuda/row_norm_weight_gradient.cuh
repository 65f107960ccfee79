// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Gradients of the gain and bias of a layer norm or RMS norm: sums over the rows.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/column_reduction.cuh>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/row_norm.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// dy xhat, and dy itself where there is a bias.
template <RowNorm Kind, bool Bias, class T, int N, class P>
struct RowNormWeightTerm {
  using Real = ComputeType<T>;
  struct Values {
    Pack<T, N> x;
    Pack<T, N> dy;
    RowStatistics<Real> row;
  };
  struct Columns {};
  static constexpr int sums = Bias ? 2 : 1;

  T const* x;
  T const* dy;
  RowNormSaved<P> saved;
  int width;
  bool whole;

  TANDEM_HOST_DEVICE Columns columns(int /*column*/) const { return {}; }
  TANDEM_HOST_DEVICE Values values(std::int64_t row, int column) const {
    std::int64_t const i = row * width + column;
    Real const mean = Kind == RowNorm::layer ? static_cast<Real>(saved.mean[row]) : Real{0};
    return {load_columns<N>(x + i, whole),
            load_columns<N>(dy + i, whole),
            {mean, static_cast<Real>(saved.inverse[row])}};
  }
  TANDEM_HOST_DEVICE void add(Columns const& /*columns*/, Values const& values,
                              Real (&sum)[sums][N]) const {
    for (int v = 0; v < N; ++v) {
      Real const dy_own = load(values.dy.value[v]);
      sum[0][v] += dy_own * values.row.normalised(load(values.x.value[v]));
      if constexpr (Bias) {
        sum[1][v] += dy_own;
      }
    }
  }
};

template <bool Bias, class P>
struct RowNormWeightResult {
  P* gain;
  P* bias;
  bool accumulate;

  TANDEM_HOST_DEVICE void operator()(int column, double const (&total)[Bias ? 2 : 1]) const {
    P const own = static_cast<P>(total[0]);
    gain[column] = accumulate ? gain[column] + own : own;
    if constexpr (Bias) {
      P const other = static_cast<P>(total[1]);
      bias[column] = accumulate ? bias[column] + other : other;
    }
  }
};

}  // namespace detail

/// Scratch of row_norm_weight_gradient for at most @p rows rows.
template <class T>
constexpr std::int64_t row_norm_scratch_bytes(std::int64_t rows, int columns) {
  return column_reduction_scratch_bytes<T>(rows, columns, 2);
}

/// gain = [+=] sum(dy xhat), bias = [+=] sum(dy) over the rows.
///
/// Shapes: x (the sum, if there was one), dy (rows, columns), gain, bias (columns), bias may be
///         null.
/// Cost:   reads x and dy once; bound by memory. One launch.
/// Order:  that of column_reduction; with @p accumulate the sum is added as one term.
/// @pre    row_norm_forward has written @p saved; scratch has row_norm_scratch_bytes<T>(rows,
///         columns)
template <RowNorm Kind, class T, class P>
void row_norm_weight_gradient(Stream const& stream, T const* x, T const* dy, std::int64_t rows,
                              int columns, RowNormSaved<P> const& saved, P* gain, P* bias,
                              bool accumulate, std::byte* scratch) {
  bool const whole = aligned(x, dy);
  auto const sum = [&](auto with_bias) {
    constexpr bool biased = decltype(with_bias)::value;
    column_reduction<T>(
        stream, rows, columns, scratch,
        [=](auto width) {
          return detail::RowNormWeightTerm<Kind, biased, T, decltype(width)::value, P>{
              x, dy, saved, columns, whole};
        },
        detail::RowNormWeightResult<biased, P>{gain, bias, accumulate});
  };
  if (bias != nullptr) {
    sum(std::bool_constant<true>{});
  } else {
    sum(std::bool_constant<false>{});
  }
}

}  // namespace tandem::cuda
