// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Column sums of a (rows, columns) matrix, which are the gradient of a bias; and adding a bias.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/column_map.cuh>
#include <tandem/kernels/cuda/column_reduction.cuh>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// Each element itself.
template <class T, int N>
struct ColumnSumTerm {
  using Real = ComputeType<T>;
  using Values = Pack<T, N>;
  struct Columns {};
  static constexpr int sums = 1;

  T const* x;
  int width;
  bool whole;

  TANDEM_HOST_DEVICE Columns columns(int /*column*/) const { return {}; }
  TANDEM_HOST_DEVICE Values values(std::int64_t row, int column) const {
    return load_columns<N>(x + row * width + column, whole);
  }
  TANDEM_HOST_DEVICE void add(Columns const& /*columns*/, Values const& values,
                              Real (&sum)[sums][N]) const {
    for (int v = 0; v < N; ++v) {
      sum[0][v] += load(values.value[v]);
    }
  }
};

template <class P>
struct ColumnSumResult {
  P* out;
  bool accumulate;

  TANDEM_HOST_DEVICE void operator()(int column, double const (&total)[1]) const {
    P const sum = static_cast<P>(total[0]);
    out[column] = accumulate ? out[column] + sum : sum;
  }
};

template <class T, int N, class P>
struct AddBiasMap {
  using Real = ComputeType<T>;
  using Values = Pack<T, N>;
  struct Columns {
    Real bias[N];
  };

  T const* x;
  T* y;
  P const* bias;
  int width;
  bool whole;

  TANDEM_HOST_DEVICE Columns columns(int column) const {
    Columns result;
    load_constants(bias + column, result.bias);
    return result;
  }
  TANDEM_HOST_DEVICE Values values(std::int64_t row, int column) const {
    return load_columns<N>(x + row * width + column, whole);
  }
  TANDEM_HOST_DEVICE void put(std::int64_t row, int column, Columns const& columns,
                              Values values) const {
    for (int v = 0; v < N; ++v) {
      values.value[v] = store<T>(load(values.value[v]) + columns.bias[v]);
    }
    store_columns<N>(y + row * width + column, values, whole);
  }
};

}  // namespace detail

/// Scratch of column_sum for at most @p rows rows.
template <class T>
constexpr std::int64_t column_sum_scratch_bytes(std::int64_t rows, int columns) {
  return column_reduction_scratch_bytes<T>(rows, columns, 1);
}

/// out = [+=] the sum of the rows.
///
/// Shapes: x (rows, columns), rows @p stride elements apart (0: columns); out (columns).
/// Cost:   reads x once; bound by memory. One launch.
/// Order:  that of column_reduction; with @p accumulate the sum is added as one term.
/// @pre    scratch has column_sum_scratch_bytes<T>(rows, columns)
template <class T, class P>
void column_sum(Stream const& stream, T const* x, std::int64_t rows, int columns, P* out,
                bool accumulate, std::byte* scratch, int stride = 0) {
  int const apart = stride > 0 ? stride : columns;
  bool const whole = aligned(x) && apart % full_pack<T> == 0;
  column_reduction<T>(
      stream, rows, columns, scratch,
      [=](auto width) {
        return detail::ColumnSumTerm<T, decltype(width)::value>{x, apart, whole};
      },
      detail::ColumnSumResult<P>{out, accumulate});
}

/// y = x + bias.
///
/// Shapes: x, y (rows, columns), rows of both @p stride elements apart (0: columns), y may be x;
///         bias (columns).
/// Cost:   reads x and writes y once; bound by memory.
template <class T, class P>
void add_bias(Stream const& stream, T const* x, T* y, P const* bias, std::int64_t rows, int columns,
              int stride = 0) {
  int const apart = stride > 0 ? stride : columns;
  bool const whole = aligned(x, y) && apart % full_pack<T> == 0;
  column_map<T>(stream, rows, columns, [=](auto width) {
    return detail::AddBiasMap<T, decltype(width)::value, P>{x, y, bias, apart, whole};
  });
}

/// y += bias, in place.
template <class T, class P>
void add_bias(Stream const& stream, T* y, P const* bias, std::int64_t rows, int columns,
              int stride = 0) {
  add_bias(stream, static_cast<T const*>(y), y, bias, rows, columns, stride);
}

}  // namespace tandem::cuda
