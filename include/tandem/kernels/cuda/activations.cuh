// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The smooth activations of kernels/functors/activations.hpp and their gradients; SwiGLU of rows.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/column_map.cuh>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/kernels/functors/activations.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

template <class Function>
struct ActivationValue {
  template <class Real>
  TANDEM_HOST_DEVICE Real operator()(Real x) const {
    return Function::value(x);
  }
};

template <class Function>
struct ActivationGradient {
  template <class Real>
  TANDEM_HOST_DEVICE Real operator()(Real kept, Real dy) const {
    return Function::gradient(kept, dy);
  }
};

/// Both halves of some columns of a row.
template <class T, int N>
struct SwiGluHalves {
  Pack<T, N> gate;
  Pack<T, N> up;

  static TANDEM_HOST_DEVICE SwiGluHalves at(T const* row, int columns, bool whole) {
    return {load_columns<N>(row, whole), load_columns<N>(row + columns, whole)};
  }
};

struct NoColumns {};

template <class T, int N>
struct SwiGluMap {
  using Columns = NoColumns;
  using Values = SwiGluHalves<T, N>;

  T const* x;
  T* y;
  int width;
  bool whole;

  TANDEM_HOST_DEVICE Columns columns(int /*column*/) const { return {}; }
  TANDEM_HOST_DEVICE Values values(std::int64_t row, int column) const {
    return Values::at(x + 2 * row * width + column, width, whole);
  }
  TANDEM_HOST_DEVICE void put(std::int64_t row, int column, Columns const& /*columns*/,
                              Values const& values) const {
    Pack<T, N> result;
    for (int v = 0; v < N; ++v) {
      result.value[v] =
          store<T>(SwiGluFunction::value(load(values.gate.value[v]), load(values.up.value[v])));
    }
    store_columns<N>(y + row * width + column, result, whole);
  }
};

template <class T, int N>
struct SwiGluGradientMap {
  using Columns = NoColumns;
  struct Values {
    SwiGluHalves<T, N> x;
    Pack<T, N> dy;
  };

  T const* x;
  T const* dy;
  T* dx;
  int width;
  bool whole;

  TANDEM_HOST_DEVICE Columns columns(int /*column*/) const { return {}; }
  TANDEM_HOST_DEVICE Values values(std::int64_t row, int column) const {
    return {SwiGluHalves<T, N>::at(x + 2 * row * width + column, width, whole),
            load_columns<N>(dy + row * width + column, whole)};
  }
  TANDEM_HOST_DEVICE void put(std::int64_t row, int column, Columns const& /*columns*/,
                              Values const& values) const {
    SwiGluHalves<T, N> result;
    for (int v = 0; v < N; ++v) {
      auto const slope = SwiGluFunction::gradient(
          load(values.x.gate.value[v]), load(values.x.up.value[v]), load(values.dy.value[v]));
      result.gate.value[v] = store<T>(slope.gate);
      result.up.value[v] = store<T>(slope.up);
    }
    T* const to = dx + 2 * row * width + column;
    store_columns<N>(to, result.gate, whole);
    store_columns<N>(to + width, result.up, whole);
  }
};

}  // namespace detail

/// y = Function::value(x).
///
/// Shapes: x (n); y (n), which may be x.
/// Cost:   reads and writes n elements; bound by memory.
template <class Function, class T>
void activation_forward(Stream const& stream, T const* x, T* y, std::int64_t n) {
  transform(stream, detail::ActivationValue<Function>{}, x, y, n);
}

/// dx = Function::gradient(kept, dy), `kept` the output if Function says so, else the input.
///
/// Shapes: kept, dy (n); dx (n), which may be either.
/// Cost:   reads 2 n elements and writes n; bound by memory.
template <class Function, class T>
void activation_gradient(Stream const& stream, T const* kept, T const* dy, T* dx, std::int64_t n) {
  transform(stream, detail::ActivationGradient<Function>{}, kept, dy, dx, n);
}

/// y = SiLU(gate) up, gate the first and up the second half of each row.
///
/// Shapes: x (rows, 2 columns), y (rows, columns).
/// Cost:   reads x and writes y once; bound by memory.
template <class T>
void swiglu_forward(Stream const& stream, T const* x, std::int64_t rows, int columns, T* y) {
  bool const whole = aligned(x, y);
  column_map<T>(stream, rows, columns, [=](auto width) {
    return detail::SwiGluMap<T, decltype(width)::value>{x, y, columns, whole};
  });
}

/// Shapes: x (rows, 2 columns), dy (rows, columns); dx (rows, 2 columns), which may be x.
/// Cost:   reads x and dy and writes dx once; bound by memory.
template <class T>
void swiglu_gradient(Stream const& stream, T const* x, T const* dy, std::int64_t rows, int columns,
                     T* dx) {
  bool const whole = aligned(x, dy, dx);
  column_map<T>(stream, rows, columns, [=](auto width) {
    return detail::SwiGluGradientMap<T, decltype(width)::value>{x, dy, dx, columns, whole};
  });
}

}  // namespace tandem::cuda
