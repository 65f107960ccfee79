// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// for_vectors: a loop over the channels of a pixel, 16 at a time, whatever their number.

#include <cstdint>
#include <type_traits>

#include <tandem/kernels/channels_last/vectors.hpp>

namespace tandem::host::channels_last {

/// Every lane is a channel.
struct AllLanes {
  template <class T>
  [[gnu::always_inline]] Floats load(T const* p) const {
    return channels_last::load(p);
  }
  template <class T>
  [[gnu::always_inline]] void store(T* p, Floats const& value) const {
    channels_last::store(p, value);
  }
  /// @p value; in lanes that are no channels @p otherwise.
  [[gnu::always_inline]] Floats const& keep(Floats const& value,
                                            Floats const& /*otherwise*/) const {
    return value;
  }
};

/// The first n lanes are channels; no memory behind them is touched.
struct FirstLanes {
  int n;

  template <class T>
  [[gnu::always_inline]] Floats load(T const* p) const {
    return channels_last::load(p, n);
  }
  template <class T>
  [[gnu::always_inline]] void store(T* p, Floats const& value) const {
    channels_last::store(p, value, n);
  }
  [[gnu::always_inline]] Floats keep(Floats const& value, Floats const& otherwise) const {
    float part[lanes];
    channels_last::store(part, otherwise);
    channels_last::store(part, value, n);
    return channels_last::load(part);
  }
};

/// Calls f(c, lanes) so that channels c, c + 1, … of all calls cover [0, channels); lanes loads and
/// stores them. Where 16 do not divide the channels some are covered twice.
///
/// @pre f computes the same values when it is called for a channel again
template <class Function>
[[gnu::always_inline]] inline void for_vectors(int channels, Function const& f) {
  if (channels < lanes) {
    f(0, FirstLanes{channels});
    return;
  }
  for (int c = 0; c < channels; c += lanes) {
    f(c < channels - lanes ? c : channels - lanes, AllLanes{});
  }
}

/// Hints that p[offset] will be read soon; it may be no memory of anybody's. Where a loop stays at
/// a pixel for a while the processor does not see by itself that it walks through memory.
template <class T>
[[gnu::always_inline]] inline void will_read(T const* p, std::int64_t offset) {
  __builtin_prefetch(reinterpret_cast<void const*>(reinterpret_cast<std::intptr_t>(p) +
                                                   offset * static_cast<std::int64_t>(sizeof(T))),
                     0);
}

/// The same of memory that will be written.
template <class T>
[[gnu::always_inline]] inline void will_write(T* p, std::int64_t offset) {
  __builtin_prefetch(reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(p) +
                                             offset * static_cast<std::int64_t>(sizeof(T))),
                     1);
}

/// Calls f(n), n a constant where it is 1, 2 or 3: for_cells then makes no loop.
template <class Function>
[[gnu::always_inline]] inline void with_columns(int n, Function const& f) {
  switch (n) {
    case 1:
      return f(std::integral_constant<int, 1>{});
    case 2:
      return f(std::integral_constant<int, 2>{});
    case 3:
      return f(std::integral_constant<int, 3>{});
    default:
      return f(n);
  }
}

/// Calls f(0), …, f(n - 1), for an n of with_columns.
template <class Count, class Function>
[[gnu::always_inline]] inline void for_cells(Count n, Function const& f) {
  if constexpr (std::is_same_v<Count, int>) {
    for (int v = 0; v < n; ++v) {
      f(v);
    }
  } else {
    if constexpr (Count::value > 0)
      f(0);
    if constexpr (Count::value > 1)
      f(1);
    if constexpr (Count::value > 2)
      f(2);
  }
}

}  // namespace tandem::host::channels_last
