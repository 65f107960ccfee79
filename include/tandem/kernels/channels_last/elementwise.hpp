// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Loops over n numbers that have no shape, float or BFloat16: convert, sum, ReLU.
///
/// BFloat16 is computed in float and rounded once, unless said otherwise.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/rounding.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

/// f(i, lanes) so that elements i, i + 1, … of all calls are [0, n), each once.
template <class Function>
[[gnu::always_inline]] inline void for_elements(Team& team, std::int64_t n, Function const& f) {
  team.parallel_for(n, [f](std::int64_t begin, std::int64_t end) {
    std::int64_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      f(i, AllLanes{});
    }
    if (i < end) {
      f(i, FirstLanes{static_cast<int>(end - i)});
    }
  });
}

/// y[i] = x[i], rounded where Y is narrower; x and y may be equal where the types are.
template <class X, class Y>
TANDEM_NOINLINE void convert(Team& team, X const* x, Y* y, std::int64_t n) {
  for_elements(team, n, [=](std::int64_t i, auto some) { some.store(y + i, some.load(x + i)); });
}

/// out[i] = in[0][i] + … + in[k - 1][i].
///
/// Cost:  reads k n elements and writes n; bound by memory.
/// Order: ((in[0] + in[1]) + in[2]) + …, for each i, in float; rounded as @p rounding says.
/// @pre   k >= 0 (0: zeros); out may be one of the inputs
template <class T>
TANDEM_NOINLINE void sum(Team& team, T const* const* in, int k, T* out, std::int64_t n,
                         Rounding rounding = Rounding::once) {
  bool const rounds = rounding == Rounding::each && sizeof(T) < sizeof(float);
  for_elements(team, n, [=](std::int64_t i, auto some) {
    Floats total = k > 0 ? some.load(in[0] + i) : Floats{0.0F};
    for (int j = 1; j < k; ++j) {
      total += some.load(in[j] + i);
      if (rounds) {
        T narrow[lanes];
        channels_last::store(narrow, total);
        total = channels_last::load(static_cast<T const*>(narrow));
      }
    }
    some.store(out + i, total);
  });
}

/// y = max(x, 0); a NaN stays a NaN, and -0 stays -0.
///
/// Shapes: x (n); y (n), which may be x.
/// Cost:   reads and writes n elements; bound by memory.
template <class T>
TANDEM_NOINLINE void relu_forward(Team& team, T const* x, T* y, std::int64_t n) {
  for_elements(team, n, [=](std::int64_t i, auto some) {
    Floats const value = some.load(x + i);
    some.store(y + i, select(Floats{0.0F} > value, Floats{0.0F}, value));
  });
}

/// dx = dy where y > 0, else 0; where y is a NaN the gradient passes, as in PyTorch.
///
/// Shapes: y (n), the output of relu_forward; dy (n); dx (n), which may be dy.
/// Cost:   reads 2 n elements and writes n; bound by memory.
template <class T>
TANDEM_NOINLINE void relu_gradient(Team& team, T const* y, T const* dy, T* dx, std::int64_t n) {
  for_elements(team, n, [=](std::int64_t i, auto some) {
    some.store(dx + i, where_positive(some.load(y + i), some.load(dy + i)));
  });
}

}  // namespace tandem::host::channels_last
