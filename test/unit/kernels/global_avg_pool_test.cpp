// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/global_avg_pool.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace global_avg_pool_test {

using namespace tandem;
using test::Team;

TEST_CASE_TEMPLATE("global_avg_pool: the mean of each map, and its gradient", T, float, double) {
  for (std::int64_t const pixels : {1, 15, 16, 49, 1000}) {
    auto const x = test::random<T>(3 * 4 * pixels, 1);
    auto const dy = test::random<T>(3 * 4, 2);
    auto const y = test::on_teams([&](Team& team) {
      auto out = test::poisoned<T>(3 * 4);
      host::global_avg_pool_forward(team, 3, 4, pixels, x.data(), out.data());
      return out;
    });
    auto const dx = test::on_teams([&](Team& team) {
      auto out = test::poisoned<T>(3 * 4 * pixels);
      host::global_avg_pool_gradient(team, 3, 4, pixels, dy.data(), out.data());
      return out;
    });
    std::vector<double> expected(y.size());
    std::vector<double> bound(y.size());
    double const count = static_cast<double>(pixels);
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::size_t const map = i / static_cast<std::size_t>(pixels);
      double const term = static_cast<double>(x[i]) / count;
      expected[map] += term;
      bound[map] += (count + 2) * (test::eps<T> + test::eps<double>)*std::abs(term);
      CHECK(dx[i] == dy[map] / static_cast<T>(pixels));
    }
    CHECK(test::within(y, expected, bound));
  }
}

}  // namespace global_avg_pool_test
