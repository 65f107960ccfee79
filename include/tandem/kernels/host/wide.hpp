// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Wide<T>: what a kernel computes with, 16 floats for float and BFloat16, one double for double.
///
/// One text of a kernel then serves the reference in double and the fast types. Blocks of work have
/// sizes of their own, so that no bit depends on how many threads share them.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/channels_last/vectors.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// The type in which numbers stored as T are computed.
template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, channels_last::Floats>;

/// @p value in every lane.
template <class T>
[[gnu::always_inline]] inline Wide<T> wide(Real<T> value) {
  return Wide<T>{value};
}

/// All lanes of a double: there is one.
struct OneLane {
  [[gnu::always_inline]] double load(double const* p) const { return *p; }
  [[gnu::always_inline]] void store(double* p, double value) const { *p = value; }
  [[gnu::always_inline]] double keep(double value, double /*otherwise*/) const { return value; }
};

/// Calls f(i, lanes) so that elements i, i + 1, … of all calls are [begin, end), each once; lanes
/// loads and stores them, and keep(value, otherwise) is otherwise in the lanes that are none.
template <class T, class Function>
[[gnu::always_inline]] inline void for_wide(std::int64_t begin, std::int64_t end,
                                            Function const& f) {
  if constexpr (std::is_same_v<T, double>) {
    for (std::int64_t i = begin; i < end; ++i) {
      f(i, OneLane{});
    }
  } else {
    std::int64_t i = begin;
    for (; i + channels_last::lanes <= end; i += channels_last::lanes) {
      f(i, channels_last::AllLanes{});
    }
    if (i < end) {
      f(i, channels_last::FirstLanes{static_cast<int>(end - i)});
    }
  }
}

/// The same of [0, n), shared by a team in blocks of 1024.
template <class T, class Function>
[[gnu::always_inline]] inline void for_wide(Team& team, std::int64_t n, Function const& f) {
  constexpr std::int64_t block = 1024;
  team.parallel_for((n + block - 1) / block, [f, n](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      for_wide<T>(b * block, std::min(n, (b + 1) * block), f);
    }
  });
}

/// The sum of the lanes, as a binary tree.
[[gnu::always_inline]] inline double lane_total(double value) { return value; }
[[gnu::always_inline]] inline float lane_total(channels_last::Floats const& value) {
  float lane[channels_last::lanes];
  channels_last::store(lane, value);
  for (int half = channels_last::lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lane[i] += lane[i + half];
    }
  }
  return lane[0];
}

/// The largest of the lanes; a NaN is passed over unless all are.
[[gnu::always_inline]] inline double lane_largest(double value) { return value; }
[[gnu::always_inline]] inline float lane_largest(channels_last::Floats const& value) {
  float lane[channels_last::lanes];
  channels_last::store(lane, value);
  float largest = lane[0];
  for (float const each : lane) {
    largest = each > largest || largest != largest ? each : largest;
  }
  return largest;
}

/// The larger of each pair; a NaN in @p a stays.
[[gnu::always_inline]] inline double larger(double a, double b) { return b > a ? b : a; }
[[gnu::always_inline]] inline channels_last::Floats larger(channels_last::Floats const& a,
                                                           channels_last::Floats const& b) {
  return max(a, b);
}

}  // namespace tandem::host
