// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rotary positions: pairs of a head's numbers turned by an angle that grows with the row.
///
/// Llama's convention ("rotate half"): number i of a head of D is paired with number i + D / 2, not
/// with its neighbour as in the paper.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Heads of D numbers in a row; the first `turned` of them are rotated.
struct RotaryHeads {
  int all;
  int turned;
  int size;  ///< D, even

  [[nodiscard]] constexpr int half() const { return size / 2; }
};

/// cosine and sine (T, D / 2) of t base^(-2 i / D), computed in double.
template <class R>
void rotary_table(int longest, int head_size, double base, R* cosine, R* sine) {
  int const half = head_size / 2;
  for (int i = 0; i < half; ++i) {
    double const frequency = std::pow(base, -2.0 * i / head_size);
    for (int t = 0; t < longest; ++t) {
      cosine[t * half + i] = static_cast<R>(std::cos(t * frequency));
      sine[t * half + i] = static_cast<R>(std::sin(t * frequency));
    }
  }
}

/// Of each pair (a, b) of a rotated head in row t: (a cos - b sin, b cos + a sin); with `backwards`
/// the inverse rotation, which is the gradient. The other heads are copied.
///
/// Shapes: x (B, time, heads, D), cosine and sine (T, D / 2); y as x, and may be x.
/// Cost:   reads and writes B time heads D elements.
/// Source: Su et al., arXiv:2104.09864
template <class T>
TANDEM_NOINLINE void rotate(Team& team, int batch, int time, RotaryHeads heads, T const* x,
                            Real<T> const* cosine, Real<T> const* sine, bool backwards, T* y) {
  int const half = heads.half();
  auto const sign = wide<T>(backwards ? -1 : 1);
  team.parallel_for(std::int64_t{batch} * time, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      Real<T> const* const c = cosine + row % time * half;
      Real<T> const* const s = sine + row % time * half;
      std::int64_t const first = row * heads.all * heads.size;
      for (int head = 0; head < heads.turned; ++head) {
        std::int64_t const at = first + std::int64_t{head} * heads.size;
        for_wide<T>(0, half, [=](std::int64_t i, auto some) {
          auto const a = some.load(x + at + i);
          auto const b = some.load(x + at + half + i);
          auto const along = some.load(c + i);
          auto const across = some.load(s + i) * sign;
          some.store(y + at + i, a * along - b * across);
          some.store(y + at + half + i, b * along + a * across);
        });
      }
      if (x != y) {
        std::copy(x + first + heads.turned * heads.size, x + first + heads.all * heads.size,
                  y + first + heads.turned * heads.size);
      }
    }
  });
}

}  // namespace tandem::host
