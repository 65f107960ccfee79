// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/lanes.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace lanes_test {

using namespace tandem;
namespace detail = host::detail;

TEST_CASE_TEMPLATE("lane_sum: 16 lanes in index order, then a binary tree", T, float, double) {
  for (std::int64_t const n : {0, 1, 15, 16, 17, 100}) {
    auto const x = test::random<T>(n, 1);
    std::vector<T> lane(16);
    for (std::size_t i = 0; i < x.size(); ++i) {
      lane[i % 16] += x[i];
    }
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) {
        lane[i] += lane[i + half];
      }
    }
    T const total =
        detail::lane_sum<T>(n, [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; });
    CHECK(total == lane[0]);
  }
}

TEST_CASE_TEMPLATE("channel_sum: the maps of one channel over the batch", T, float, double) {
  std::vector<T> x(2 * 3 * 5);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<T>(i);
  }
  double const total = detail::channel_sum<T>(
      2, 3, 5, 1, [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; });
  CHECK(total == 5 + 6 + 7 + 8 + 9 + 20 + 21 + 22 + 23 + 24);
}

}  // namespace lanes_test
