// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Verbs<Backend>: the few operations on flat arrays that the engine itself needs.

#include <cstdint>

#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

/// Rounds once, to nearest.
template <class From, class To>
struct CastElement {
  From const* x;
  To* y;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<To>(x[i]); }
};

/// zero, copy, cast, add (y += x), sum (of k arrays, in order), sum_of_squares (in double, in an
/// order of its own that no number of threads changes), each (functor(i) for every i).
template <class Backend>
struct Verbs;

template <class Precision>
struct Verbs<BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

  static void zero(host::Device& d, T* y, std::int64_t n) { host::fill(d.team, y, n, T{0}); }
  static void copy(host::Device& d, T const* x, T* y, std::int64_t n) {
    host::copy(d.team, x, y, n);
  }
  static void add(host::Device& d, T const* x, T* y, std::int64_t n) {
    T const* const both[] = {x, y};
    host::sum(d.team, both, 2, y, n);
  }
  static void sum(host::Device& d, T const* const* in, int k, T* out, std::int64_t n) {
    host::sum(d.team, in, k, out, n);
  }
  /// y = x in another type.
  template <class From, class To>
  static void cast(host::Device& d, From const* x, To* y, std::int64_t n) {
    host::transform(d.team, n, CastElement<From, To>{x, y});
  }
  static double sum_of_squares(host::Device& d, T const* x, std::int64_t n) {
    return host::sum_of_squares(d.team, x, n);
  }
  template <class Functor>
  static void each(host::Device& d, std::int64_t n, Functor const& functor) {
    host::transform(d.team, n, functor);
  }
};

}  // namespace tandem
