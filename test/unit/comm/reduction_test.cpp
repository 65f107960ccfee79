// SPDX-License-Identifier: Apache-2.0

#include <tandem/comm/reduction.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace tandem {
namespace reduction_test {

static_assert(Sum{}(2, 3) == 5 && Max{}(2, 3) == 3 && Max{}(3, 2) == 3);

TEST_CASE_TEMPLATE("Sum adds", T, float, double, int, short, unsigned char) {
  CHECK(Sum{}(T{3}, T{4}) == T{7});
}

TEST_CASE_TEMPLATE("Max keeps a NaN of either side", T, float, double) {
  T const nan = std::numeric_limits<T>::quiet_NaN();
  T const inf = std::numeric_limits<T>::infinity();
  CHECK(std::isnan(Max{}(nan, T{1})));
  CHECK(std::isnan(Max{}(T{1}, nan)));
  CHECK(std::isnan(Max{}(nan, inf)));
  CHECK(Max{}(-inf, T{-1}) == T{-1});
  CHECK(Max{}(T{1}, inf) == inf);
}

}  // namespace reduction_test
}  // namespace tandem
