// SPDX-License-Identifier: Apache-2.0
// insertion_sort() is std::stable_sort of few elements.

#include <tandem/core/insertion_sort.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace tandem {
namespace insertion_sort_test {

TEST_CASE("lists of any length are sorted, and what is equal stays in its order") {
  std::mt19937 random{1};
  for (int count = 0; count < 40; ++count) {
    std::vector<std::pair<int, int>> list;
    for (int i = 0; i < count; ++i) {
      list.emplace_back(static_cast<int>(random() % 7), i);
    }
    auto const less = [](auto const& a, auto const& b) { return a.first < b.first; };
    std::vector<std::pair<int, int>> wanted = list;
    std::stable_sort(wanted.begin(), wanted.end(), less);
    insertion_sort(list, less);
    CHECK(list == wanted);
  }
}

}  // namespace insertion_sort_test
}  // namespace tandem
