// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The passes of a program's own ElementJoin.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

template <class J>
struct ElementJoinValue {
  template <class Real>
  TANDEM_HOST_DEVICE Real operator()(Real a, Real b) const {
    return J::value(a, b);
  }
};

template <class T, int N>
struct ElementJoinValues {
  Pack<T, N> a;
  Pack<T, N> b;
  Pack<T, N> dy;
};

/// Of the first branch or of the second one.
template <class J, bool First, class T>
struct ElementJoinGradient {
  T const* a;
  T const* b;
  T const* dy;
  T* dx;

  template <int N>
  TANDEM_HOST_DEVICE ElementJoinValues<T, N> read(std::int64_t i) const {
    return {load_pack<N>(a + i), load_pack<N>(b + i), load_pack<N>(dy + i)};
  }
  template <int N>
  TANDEM_HOST_DEVICE void write(std::int64_t i, ElementJoinValues<T, N> const& values) const {
    Pack<T, N> result;
    for (int v = 0; v < N; ++v) {
      ComputeType<T> const one = load(values.a.value[v]);
      ComputeType<T> const other = load(values.b.value[v]);
      ComputeType<T> const slope = First ? J::first_slope(one, other) : J::second_slope(one, other);
      result.value[v] = store<T>(load(values.dy.value[v]) * slope);
    }
    store_pack(dx + i, result);
  }
};

}  // namespace detail

/// y = J::value(a, b).
///
/// Shapes: a, b, y (n).
/// Cost:   reads 2 n elements and writes n; bound by memory.
template <class J, class T>
void element_join_forward(Stream const& stream, T const* a, T const* b, T* y, std::int64_t n) {
  transform(stream, detail::ElementJoinValue<J>{}, a, b, y, n);
}

/// dx = dy J::first_slope(a, b), or that of the second.
///
/// Shapes: a, b, dy, dx (n).
/// Cost:   reads 3 n elements and writes n; bound by memory.
template <class J, bool First, class T>
void element_join_gradient(Stream const& stream, T const* a, T const* b, T const* dy, T* dx,
                           std::int64_t n) {
  detail::ElementJoinGradient<J, First, T> const body{a, b, dy, dx};
  if (aligned(a, b, dy, dx)) {
    detail::map<full_pack<T>>(stream, n, body);
  } else {
    detail::map<1>(stream, n, body);
  }
}

}  // namespace tandem::cuda
