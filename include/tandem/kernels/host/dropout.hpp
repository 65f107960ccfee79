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

/// dropout_forward() of some rows of a batch, and of a slice of the columns of each, with the mask
/// that the whole batch has; likewise of gradients.
///
/// Shapes: x (rows, own); y (rows, own), which may be x.
template <class T>
TANDEM_NOINLINE void drop_columns(Team& team, DropoutRows const& rows,
                                  DropoutColumns const& columns, DropoutPlace const& place,
                                  float rate, T const* x, T* y) {
  using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
  Real const scale = dropout_scale<Real>(rate);
  team.parallel_for(rows.count, [=](std::int64_t begin, std::int64_t end) {
    constexpr int block = 64;
    std::uint32_t words[block];
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t at = row * columns.own;
      std::int64_t const sample = rows.sample(row);
      std::int64_t const in_sample = rows.in_sample(row);
      for (int run = 0; run < columns.runs; ++run) {
        std::int64_t const first =
            (columns.first_row + in_sample) * columns.whole + columns.at[run];
        for (int c = 0; c < columns.count[run]; c += block) {
          int const count = std::min(block, columns.count[run] - c);
          channels_last::detail::dropout_row(place, sample, first + c, count, words);
          for (int i = 0; i < count; ++i, ++at) {
            y[at] = static_cast<T>(dropped(words[i], rate, scale, static_cast<Real>(x[at])));
          }
        }
      }
    }
  });
}

}  // namespace tandem::host
