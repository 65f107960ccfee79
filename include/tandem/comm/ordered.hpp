// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Whether a communicator adds in a fixed order, and what an order costs where it does not.

#include <cstddef>

#include <tandem/comm/share.hpp>

namespace tandem {

/// Whether a communicator adds in an order fixed by rank. It says so by `ordered = true`; one that
/// says nothing may add as it likes.
template <class C>
inline constexpr bool sums_in_order = [] {
  if constexpr (requires { C::ordered; }) {
    return bool{C::ordered};
  } else {
    return false;
  }
}();

/// Bytes that all_reduce_ordered() needs between the ranks of a C for @p count elements: none where
/// all_reduce() is ordered itself, else about (n - 1) / n of those of the elements.
template <class C, class T>
constexpr std::size_t ordered_scratch_bytes(std::size_t count, int ranks) {
  if constexpr (sums_in_order<C>) {
    return 0;
  } else {
    return static_cast<std::size_t>(ranks - 1) * detail::share_size(ranks, count, sizeof(T)) *
           sizeof(T);
  }
}

}  // namespace tandem
