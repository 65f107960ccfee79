// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sums over a run of indices in one fixed order that a compiler can vectorise.
///
/// A compiler may not reorder a floating-point sum, so the order says it: term i goes to lane i mod
/// 16, and the lanes are added as a binary tree at the end. No thread is involved.

#include <cstdint>

namespace tandem::host::detail {

inline constexpr int lanes = 16;

/// The sum of the lanes, as a binary tree: lane i and lane i + 8, then 4, 2, 1.
template <class T>
constexpr T add_lanes(T (&lane)[lanes]) {
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lane[i] += lane[i + half];
    }
  }
  return lane[0];
}

/// term(0) + … + term(n - 1), added in the type T.
///
/// Order: 16 interleaved sums in index order, then a binary tree; a function of n only.
template <class T, class Term>
T lane_sum(std::int64_t n, Term const& term) {
  T lane[lanes] = {};
  std::int64_t const whole = n - n % lanes;
  for (std::int64_t i = 0; i < whole; i += lanes) {
    for (int j = 0; j < lanes; ++j) {
      lane[j] += static_cast<T>(term(i + j));
    }
  }
  for (std::int64_t i = whole; i < n; ++i) {
    lane[i - whole] += static_cast<T>(term(i));
  }
  return add_lanes(lane);
}

/// The sum of term(i) over the elements i of one channel of a (B, C, pixels) tensor.
///
/// Order: each map in 16 lanes in T, then the samples in order in double.
template <class T, class Term>
double channel_sum(int batch, int channels, std::int64_t pixels, std::int64_t channel,
                   Term const& term) {
  double total = 0;
  for (std::int64_t s = 0; s < batch; ++s) {
    std::int64_t const first = (s * channels + channel) * pixels;
    total +=
        static_cast<double>(lane_sum<T>(pixels, [&](std::int64_t i) { return term(first + i); }));
  }
  return total;
}

}  // namespace tandem::host::detail
