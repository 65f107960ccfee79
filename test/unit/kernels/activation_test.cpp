// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/activation.hpp>

#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace activation_test {

using namespace tandem;
using test::Team;

TEST_CASE_TEMPLATE("relu and its gradient", T, float, double) {
  for (std::int64_t const n : {0, 1, 33, 1000}) {
    auto const x = test::random<T>(n, 1);
    auto const dy = test::random<T>(n, 2);
    auto const y = test::on_teams([&](Team& team) {
      auto out = test::poisoned<T>(n);
      host::relu_forward(team, x.data(), out.data(), n);
      auto place = x;
      host::relu_forward(team, place.data(), place.data(), n);
      CHECK(test::same_bits(place, out));
      return out;
    });
    auto const dx = test::on_teams([&](Team& team) {
      auto out = test::poisoned<T>(n);
      host::relu_gradient(team, y.data(), dy.data(), out.data(), n);
      auto place = dy;
      host::relu_gradient(team, y.data(), place.data(), place.data(), n);
      CHECK(test::same_bits(place, out));
      return out;
    });
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(y[i] == (x[i] > 0 ? x[i] : T{0}));
      CHECK(dx[i] == (x[i] > 0 ? dy[i] : T{0}));
    }
  }
}

TEST_CASE_TEMPLATE("relu keeps a NaN, and lets its gradient pass", T, float, double) {
  Team team{1};
  T const infinity = std::numeric_limits<T>::infinity();
  std::vector<T> const x{test::nan<T>, T{0}, -T{0}, infinity, -infinity};
  std::vector<T> const dy(5, T{2});
  std::vector<T> y(5);
  std::vector<T> dx(5);
  host::relu_forward(team, x.data(), y.data(), 5);
  host::relu_gradient(team, y.data(), dy.data(), dx.data(), 5);
  CHECK(y[0] != y[0]);
  CHECK(std::vector<T>(y.begin() + 1, y.end()) == std::vector<T>{0, 0, infinity, 0});
  CHECK(dx == std::vector<T>{2, 0, 0, 2, 0});
}

}  // namespace activation_test
