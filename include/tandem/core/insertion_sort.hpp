// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// insertion_sort: a stable sort of a few elements, in a tenth of the code of std::stable_sort,
/// which each type that is sorted would compile anew.

#include <cstddef>
#include <utility>
#include <vector>

namespace tandem {

/// Sorts @p list by @p less; what is equal stays in its order. Linear in a list that is sorted,
/// quadratic at most.
template <class T, class Less>
constexpr void insertion_sort(std::vector<T>& list, Less const& less) {
  for (std::size_t i = 1; i < list.size(); ++i) {
    T one = std::move(list[i]);
    std::size_t at = i;
    for (; at > 0 && less(one, list[at - 1]); --at) {
      list[at] = std::move(list[at - 1]);
    }
    list[at] = std::move(one);
  }
}

}  // namespace tandem
