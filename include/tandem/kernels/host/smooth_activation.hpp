// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GELU, SiLU, sigmoid, tanh and SwiGLU: the functors of kernels/functors/activations.hpp over
/// arrays.

#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/activations.hpp>
#include <tandem/kernels/functors/activations.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// A functor of activations.hpp on Wide<T>.
template <class Function, class T>
using OfWide =
    std::conditional_t<std::is_same_v<T, double>, Function, channels_last::InVectors<Function>>;

/// y = Function::value(x).
///
/// Shapes: x (n); y (n), which may be x.
/// Cost:   reads and writes n elements; for the errors in float see channels_last/elementary.hpp.
template <class Function, class T>
TANDEM_NOINLINE void activation_forward(Team& team, T const* x, T* y, std::int64_t n) {
  for_wide<T>(team, n, [=](std::int64_t i, auto some) {
    some.store(y + i, OfWide<Function, T>::value(some.load(x + i)));
  });
}

/// dx = Function::gradient(kept, dy).
///
/// Shapes: kept (n), y where Function::gradient_from_output, else x; dy (n); dx (n), which may be
///         dy.
/// Cost:   reads 2 n elements and writes n.
template <class Function, class T>
TANDEM_NOINLINE void activation_gradient(Team& team, T const* kept, T const* dy, T* dx,
                                         std::int64_t n) {
  for_wide<T>(team, n, [=](std::int64_t i, auto some) {
    some.store(dx + i, OfWide<Function, T>::gradient(some.load(kept + i), some.load(dy + i)));
  });
}

/// y = silu(first half of x) * second half, row by row.
///
/// Shapes: x (rows, 2 C); y (rows, C).
/// Cost:   reads 2 rows C elements and writes rows C.
/// Source: Shazeer, arXiv:2002.05202
template <class T>
TANDEM_NOINLINE void swiglu_forward(Team& team, std::int64_t rows, int channels, T const* x, T* y) {
  team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T const* const gate = x + row * 2 * channels;
      T const* const up = gate + channels;
      T* const out = y + row * channels;
      for_wide<T>(0, channels, [=](std::int64_t c, auto some) {
        some.store(out + c,
                   OfWide<SwiGluFunction, T>::value(some.load(gate + c), some.load(up + c)));
      });
    }
  });
}

/// Both halves of dx.
///
/// Shapes: x (rows, 2 C), dy (rows, C); dx (rows, 2 C), which may be x.
/// Cost:   reads 3 rows C elements and writes 2 rows C.
template <class T>
TANDEM_NOINLINE void swiglu_gradient(Team& team, std::int64_t rows, int channels, T const* x,
                                     T const* dy, T* dx) {
  team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const first = row * 2 * channels;
      T const* const out = dy + row * channels;
      for_wide<T>(0, channels, [=](std::int64_t c, auto some) {
        auto const d = OfWide<SwiGluFunction, T>::gradient(
            some.load(x + first + c), some.load(x + first + channels + c), some.load(out + c));
        some.store(dx + first + c, d.gate);
        some.store(dx + first + channels + c, d.up);
      });
    }
  });
}

}  // namespace tandem::host
