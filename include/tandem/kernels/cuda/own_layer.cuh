// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The passes of a program's own ElementLayer and ChannelLayer.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/column_map.cuh>
#include <tandem/kernels/cuda/column_reduction.cuh>
#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/kernels/functors/own_layer.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

template <class L>
struct ElementLayerValue {
  template <class Real>
  TANDEM_HOST_DEVICE Real operator()(Real x) const {
    return L::value(x);
  }
};

/// Of some neighbours; what is not read are those of dy again.
template <class T, int N>
struct ElementLayerValues {
  Pack<T, N> x;
  Pack<T, N> y;
  Pack<T, N> dy;
};

template <class L, class T>
struct ElementLayerGradient {
  using Slope = ElementSlope<L>;

  T const* x;
  T const* y;
  T const* dy;
  T* dx;

  template <int N>
  TANDEM_HOST_DEVICE ElementLayerValues<T, N> read(std::int64_t i) const {
    return {load_pack<N>((Slope::reads_input ? x : dy) + i),
            load_pack<N>((Slope::reads_output ? y : dy) + i), load_pack<N>(dy + i)};
  }
  template <int N>
  TANDEM_HOST_DEVICE void write(std::int64_t i, ElementLayerValues<T, N> const& values) const {
    Pack<T, N> result;
    for (int v = 0; v < N; ++v) {
      result.value[v] = store<T>(load(values.dy.value[v]) *
                                 Slope::at(load(values.x.value[v]), load(values.y.value[v])));
    }
    store_pack(dx + i, result);
  }
};

template <class Real, int N>
struct ChannelLayerWeights {
  Real weight[N];
};

/// y, or dx where there is a dy.
template <class L, class T, int N, class P, bool Gradient>
struct ChannelLayerMap {
  using Columns = ChannelLayerWeights<ComputeType<T>, N>;
  struct Values {
    Pack<T, N> x;
    Pack<T, N> dy;
  };

  T const* x;
  T const* dy;
  P const* weight;
  T* out;
  int width;
  bool whole;

  TANDEM_HOST_DEVICE Columns columns(int column) const {
    Columns result;
    load_constants(weight + column, result.weight);
    return result;
  }
  TANDEM_HOST_DEVICE Values values(std::int64_t row, int column) const {
    std::int64_t const at = row * width + column;
    return {load_columns<N>(x + at, whole), load_columns<N>((Gradient ? dy : x) + at, whole)};
  }
  TANDEM_HOST_DEVICE void put(std::int64_t row, int column, Columns const& columns,
                              Values const& values) const {
    Pack<T, N> result;
    for (int v = 0; v < N; ++v) {
      ComputeType<T> const at = load(values.x.value[v]);
      if constexpr (Gradient) {
        result.value[v] = store<T>(load(values.dy.value[v]) * L::slope(at, columns.weight[v]));
      } else {
        result.value[v] = store<T>(L::value(at, columns.weight[v]));
      }
    }
    store_columns<N>(out + row * width + column, result, whole);
  }
};

template <class L, class T, int N, class P>
struct ChannelLayerTerm {
  using Real = ComputeType<T>;
  using Columns = ChannelLayerWeights<Real, N>;
  struct Values {
    Pack<T, N> x;
    Pack<T, N> dy;
  };
  static constexpr int sums = 1;

  T const* x;
  T const* dy;
  P const* weight;
  int width;
  bool whole;

  TANDEM_HOST_DEVICE Columns columns(int column) const {
    Columns result;
    load_constants(weight + column, result.weight);
    return result;
  }
  TANDEM_HOST_DEVICE Values values(std::int64_t row, int column) const {
    std::int64_t const at = row * width + column;
    return {load_columns<N>(x + at, whole), load_columns<N>(dy + at, whole)};
  }
  TANDEM_HOST_DEVICE void add(Columns const& columns, Values const& values,
                              Real (&sum)[sums][N]) const {
    for (int v = 0; v < N; ++v) {
      sum[0][v] +=
          load(values.dy.value[v]) * L::weight_slope(load(values.x.value[v]), columns.weight[v]);
    }
  }
};

}  // namespace detail

/// y = L::value(x).
///
/// Shapes: x (n); y (n), which may be x.
/// Cost:   reads and writes n elements; bound by memory.
template <class L, class T>
void element_layer_forward(Stream const& stream, T const* x, T* y, std::int64_t n) {
  transform(stream, detail::ElementLayerValue<L>{}, x, y, n);
}

/// dx = dy times the slope.
///
/// Shapes: x, y, dy (n), of which x or y is not read where L's slope is not of it; dx (n), which
///         may be any of them.
/// Cost:   reads 2 or 3 n elements and writes n; bound by memory.
template <class L, class T>
void element_layer_gradient(Stream const& stream, T const* x, T const* y, T const* dy, T* dx,
                            std::int64_t n) {
  using Slope = ElementSlope<L>;
  detail::ElementLayerGradient<L, T> const body{x, y, dy, dx};
  if (aligned(dy, dx) && (!Slope::reads_input || aligned(x)) &&
      (!Slope::reads_output || aligned(y))) {
    detail::map<full_pack<T>>(stream, n, body);
  } else {
    detail::map<1>(stream, n, body);
  }
}

/// y = L::value(x, w[column]).
///
/// Shapes: x (rows, columns); y likewise, which may be x; w (columns).
/// Cost:   reads x and writes y once; bound by memory.
template <class L, class T, class P>
void channel_layer_forward(Stream const& stream, T const* x, P const* w, std::int64_t rows,
                           int columns, T* y) {
  bool const whole = aligned(x, y);
  column_map<T>(stream, rows, columns, [=](auto width) {
    return detail::ChannelLayerMap<L, T, decltype(width)::value, P, false>{x, nullptr, w,
                                                                           y, columns, whole};
  });
}

/// dx = dy L::slope(x, w[column]).
///
/// Shapes: x, dy (rows, columns); dx likewise, which may be either; w (columns).
template <class L, class T, class P>
void channel_layer_input_gradient(Stream const& stream, T const* x, P const* w, T const* dy,
                                  std::int64_t rows, int columns, T* dx) {
  bool const whole = aligned(x, dy, dx);
  column_map<T>(stream, rows, columns, [=](auto width) {
    return detail::ChannelLayerMap<L, T, decltype(width)::value, P, true>{x,  dy,      w,
                                                                          dx, columns, whole};
  });
}

/// Scratch of channel_layer_weight_gradient for at most @p rows rows.
template <class T>
constexpr std::int64_t channel_layer_scratch_bytes(std::int64_t rows, int columns) {
  return column_reduction_scratch_bytes<T>(rows, columns, 1);
}

/// dw = [+=] the sum over the rows of dy L::weight_slope(x, w[column]).
///
/// Shapes: x, dy (rows, columns); w, dw (columns).
/// Cost:   reads x and dy once; bound by memory. One launch.
/// Order:  that of column_reduction; with @p accumulate the sum is added as one term.
/// @pre    scratch has channel_layer_scratch_bytes<T>(rows, columns)
template <class L, class T, class P>
void channel_layer_weight_gradient(Stream const& stream, T const* x, P const* w, T const* dy,
                                   std::int64_t rows, int columns, P* dw, bool accumulate,
                                   std::byte* scratch) {
  bool const whole = aligned(x, dy);
  column_reduction<T>(
      stream, rows, columns, scratch,
      [=](auto width) {
        return detail::ChannelLayerTerm<L, T, decltype(width)::value, P>{x, dy, w, columns, whole};
      },
      detail::ColumnSumResult<P>{dw, accumulate});
}

}  // namespace tandem::cuda
