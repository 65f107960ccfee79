// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Dropout whose mask is never stored: it is drawn again, from the place of each element.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/dropout.hpp>
#include <tandem/kernels/functors/dropout_mask.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y = x / (1 - rate) where the element is kept, else 0; kept is uniform(word) >= rate.
///
/// Shapes: x (B, elements); y (B, elements), which may be x.
/// Cost:   one Philox block of 10 rounds for each four elements, 16 blocks at once.
/// @pre    0 <= rate < 1; elements < 2³¹
/// Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, JMLR 15 (2014), section 10
///         (the "inverted" form, scaled in training)
template <class T>
TANDEM_NOINLINE void dropout_forward(Team& team, int batch, std::int64_t elements,
                                     DropoutPlace const& place, float rate, T const* x, T* y) {
  if constexpr (std::is_same_v<T, double>) {
    constexpr std::int64_t block = 64;
    T const scale = dropout_scale<T>(rate);
    std::int64_t const blocks = (elements + block - 1) / block;
    team.parallel_for(batch * blocks, [=](std::int64_t begin, std::int64_t end) {
      std::uint32_t words[block];
      for (std::int64_t b = begin; b < end; ++b) {
        std::int64_t const first = b % blocks * block;
        std::int64_t const count = std::min(block, elements - first);
        std::int64_t const at = b / blocks * elements + first;
        channels_last::detail::dropout_row(place, b / blocks, first, count, words);
        for (std::int64_t i = 0; i < count; ++i) {
          y[at + i] = dropped(words[i], rate, scale, x[at + i]);
        }
      }
    });
  } else {
    channels_last::dropout_forward(team, batch, static_cast<int>(elements), 1, place, rate, x, y);
  }
}

/// dx = dy / (1 - rate) where the element was kept, else 0: the same map, with the same mask.
///
/// Shapes: dy (B, elements); dx (B, elements), which may be dy.
template <class T>
TANDEM_NOINLINE void dropout_gradient(Team& team, int batch, std::int64_t elements,
                                      DropoutPlace const& place, float rate, T const* dy, T* dx) {
  dropout_forward(team, batch, elements, place, rate, dy, dx);
}

}  // namespace tandem::host
