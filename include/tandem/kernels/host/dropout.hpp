// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Dropout whose mask is never stored: it is drawn again, from the place of each element.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/dropout_mask.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y = x / (1 - rate) where the element is kept, else 0; kept is uniform(word) >= rate.
///
/// Shapes: x (B, elements); y (B, elements), which may be x.
/// Cost:   one Philox block of 10 rounds for each four elements; bound by arithmetic.
/// @pre    0 <= rate < 1; elements < 2³⁴
/// Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, JMLR 15 (2014), section 10
///         (the "inverted" form, scaled in training)
template <class T>
TANDEM_NOINLINE void dropout_forward(Team& team, int batch, std::int64_t elements,
                                     DropoutPlace const& place, float rate, T const* x, T* y) {
  T const scale = dropout_scale<T>(rate);
  std::int64_t const blocks = (elements + 3) / 4;
  team.parallel_for(batch * blocks, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::int64_t const sample = b / blocks;
      std::int64_t const q = b % blocks;
      Random4 const random = dropout_words(place, sample, q);
      for (std::int64_t j = 0; j < 4 && 4 * q + j < elements; ++j) {
        std::int64_t const i = sample * elements + 4 * q + j;
        y[i] = dropped(random.word[j], rate, scale, x[i]);
      }
    }
  });
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
