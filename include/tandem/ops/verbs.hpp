// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Verbs<Backend>: the few operations on flat arrays that the engine itself needs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <tandem/core/rounding.hpp>
#include <tandem/kernels/channels_last/elementwise.hpp>
#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/kernels/host/gradient_rows.hpp>
#include <tandem/kernels/host/update.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

/// Rounds once, to nearest.
template <class From, class To>
struct CastElement {
  From const* x;
  To* y;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<To>(x[i]); }
};

/// zero, copy, cast, add (y += x), sum (of k arrays, in order; 16-bit ones in float, rounded once),
/// sum_of_squares (in double, in an order of its own that no number of threads changes), each
/// (functor(i) for every i; a step of an optimizer in vectors). Arrays are activations or
/// parameters, whatever the types of these are. gather_rows: row b of `to` is row parents[b] of
/// `from`, of so many bytes, or zeros where that is -1; needed where sequences come in pieces.
/// to_host, from_host: bytes, which are there when the call returns; needed by Stateful layers, and
/// where the host cannot read the device's memory. Of GradientRows: clear_rows, copy_rows,
/// add_rows, sum_rows, row_scratch_bytes (which these and ops need); on Host, whose update calls
/// it, sum_of_squares and each_row (a step of an optimizer).
template <class Backend>
struct Verbs;

template <class Kernels, class Precision>
struct Verbs<BasicHost<Kernels, Precision>> {
  template <class E>
  static void zero(host::Device& d, E* y, std::int64_t n) {
    host::fill(d.team, y, n, E{});
  }
  template <class E>
  static void copy(host::Device& d, E const* x, E* y, std::int64_t n) {
    host::copy(d.team, x, y, n);
  }
  template <class E>
  static void add(host::Device& d, E const* x, E* y, std::int64_t n) {
    E const* const both[] = {x, y};
    sum(d, both, 2, y, n);
  }
  template <class E>
  static void sum(host::Device& d, E const* const* in, int k, E* out, std::int64_t n,
                  Rounding rounding = Rounding::once) {
    if constexpr (std::is_same_v<E, double>) {
      host::sum(d.team, in, k, out, n);
    } else {
      host::channels_last::sum(d.team, in, k, out, n, rounding);
    }
  }
  /// y = x in another type.
  template <class From, class To>
  static void cast(host::Device& d, From const* x, To* y, std::int64_t n) {
    host::transform(d.team, n, CastElement<From, To>{x, y});
  }
  template <class E>
  static double sum_of_squares(host::Device& d, E const* x, std::int64_t n) {
    return host::sum_of_squares(d.team, x, n);
  }
  template <class E>
  static bool all_finite(host::Device& d, E const* x, std::int64_t n) {
    return host::all_finite(d.team, x, n);
  }
  /// Bytes that a parameter's GradientRows have as scratch.
  static std::int64_t row_scratch_bytes(host::Device& /*device*/, RowScratch const& of) {
    return of.tree ? of.most * static_cast<std::int64_t>(sizeof(std::int32_t)) : 0;
  }
  template <class P>
  static void clear_rows(host::Device& /*device*/, GradientRows<P> const& y) {
    *y.count = 0;
  }
  template <class P>
  static void copy_rows(host::Device& d, GradientRows<P> const& x, GradientRows<P> const& y) {
    host::copy_rows(d.team, x, y);
  }
  template <class P>
  static void add_rows(host::Device& d, GradientRows<P> const& x, GradientRows<P> const& y) {
    host::add_rows(d.team, x, y, reinterpret_cast<std::int32_t*>(y.scratch));
  }
  template <class P>
  static void sum_rows(host::Device& d, GradientRows<P> const* sets, int n,
                       GradientRows<P> const& out) {
    host::sum_gradient_rows(d.team, sets, n, out);
  }
  /// Of the dense gradient of @p all elements that they are.
  template <class P>
  static double sum_of_squares(host::Device& /*device*/, GradientRows<P> const& rows,
                               std::int64_t all) {
    return host::sum_of_squares(rows, all);
  }
  /// @param functor  of the whole parameter: its run begins with row 0
  template <class P, class Functor>
  static void each_row(host::Device& d, GradientRows<P> const& rows, Functor const& functor) {
    host::update_rows(d.team, rows, functor);
  }
  static void to_host(host::Device& /*device*/, std::byte const* from, std::byte* to,
                      std::size_t bytes) {
    std::copy_n(from, bytes, to);
  }
  static void from_host(host::Device& /*device*/, std::byte const* from, std::byte* to,
                        std::size_t bytes) {
    std::copy_n(from, bytes, to);
  }
  static void gather_rows(host::Device& d, std::byte const* from, std::byte* to,
                          std::int32_t const* parents, std::int64_t rows, std::int64_t bytes) {
    d.team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        if (parents[b] < 0) {
          std::memset(to + b * bytes, 0, static_cast<std::size_t>(bytes));
        } else {
          std::memcpy(to + b * bytes, from + parents[b] * bytes, static_cast<std::size_t>(bytes));
        }
      }
    });
  }
  template <class Functor>
  static void each(host::Device& d, std::int64_t n, Functor const& functor) {
    if constexpr (requires { functor.run.parameter; }) {
      host::update<std::remove_pointer_t<decltype(functor.run.parameter)>>(d.team, n, functor);
    } else {
      host::transform(d.team, n, functor);
    }
  }
};

}  // namespace tandem
