// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/elementwise.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace elementwise_test {

using namespace tandem;
using test::Team;

constexpr std::int64_t lengths[] = {0, 1, 15, 16, 17, 1023, 1025, 5000};

TEST_CASE_TEMPLATE("fill, copy and transform reach each element once", T, float, double) {
  for (std::int64_t const n : lengths) {
    auto const x = test::random<T>(n, 1);
    auto const filled = test::on_teams([&](Team& team) {
      auto y = test::poisoned<T>(n);
      host::fill(team, y.data(), n, T{3});
      return y;
    });
    CHECK(test::same_bits(filled, std::vector<T>(static_cast<std::size_t>(n), T{3})));
    auto const copied = test::on_teams([&](Team& team) {
      auto y = test::poisoned<T>(n);
      host::copy(team, x.data(), y.data(), n);
      host::copy(team, y.data(), y.data(), n);
      return y;
    });
    CHECK(test::same_bits(copied, x));
    auto const counted = test::on_teams([&](Team& team) {
      std::vector<T> y(static_cast<std::size_t>(n));
      T* const to = y.data();
      host::transform(team, n, [=](std::int64_t i) { to[i] += static_cast<T>(i); });
      return y;
    });
    for (std::size_t i = 0; i < counted.size(); ++i) {
      CHECK(counted[i] == static_cast<T>(i));
    }
  }
}

TEST_CASE_TEMPLATE("sum adds its inputs in order, also in place", T, float, double) {
  for (std::int64_t const n : lengths) {
    auto const a = test::random<T>(n, 1);
    auto const b = test::random<T>(n, 2);
    auto const c = test::random<T>(n, 3);
    T const* const in[] = {a.data(), b.data(), c.data()};
    for (int k = 0; k <= 3; ++k) {
      auto const y = test::on_teams([&](Team& team) {
        auto out = test::poisoned<T>(n);
        host::sum(team, in, k, out.data(), n);
        return out;
      });
      for (std::size_t i = 0; i < y.size(); ++i) {
        T expected = k > 0 ? a[i] : T{0};
        expected = k > 1 ? expected + b[i] : expected;
        expected = k > 2 ? expected + c[i] : expected;
        CHECK(y[i] == expected);
      }
      auto place = b;
      T const* const with_place[] = {a.data(), place.data(), c.data()};
      Team team{2};
      host::sum(team, with_place, k, place.data(), n);
      CHECK(test::same_bits(place, y));
    }
  }
}

TEST_CASE_TEMPLATE("axpby is a x + b y, and does not read y for b = 0", T, float, double) {
  for (std::int64_t const n : lengths) {
    auto const x = test::random<T>(n, 1);
    auto const old = test::random<T>(n, 2);
    auto const y = test::on_teams([&](Team& team) {
      auto out = old;
      host::axpby(team, T{0.25}, x.data(), T{-1.5}, out.data(), n);
      return out;
    });
    auto const scaled = test::on_teams([&](Team& team) {
      auto out = test::poisoned<T>(n);
      host::axpby(team, T{0.25}, x.data(), T{0}, out.data(), n);
      return out;
    });
    for (std::size_t i = 0; i < y.size(); ++i) {
      double const expected = static_cast<double>(T{0.25}) * static_cast<double>(x[i]) +
                              static_cast<double>(T{-1.5}) * static_cast<double>(old[i]);
      // Two products and a sum of at most 0.25 and 1.5: three roundings of at most eps / 2 each.
      CHECK(!(std::abs(static_cast<double>(y[i]) - expected) > 2 * 1.5 * test::eps<T>));
      CHECK(scaled[i] == T{0.25} * x[i]);
    }
  }
}

TEST_CASE_TEMPLATE("sum_of_squares", T, float, double) {
  for (std::int64_t const n : lengths) {
    auto const x = test::random<T>(n, 1);
    auto const total = test::on_teams(
        [&](Team& team) { return std::vector<double>{host::sum_of_squares(team, x.data(), n)}; });
    double expected = 0;
    for (T const value : x) {
      expected += static_cast<double>(value) * static_cast<double>(value);
    }
    double const n_eps = static_cast<double>(n + 1) * test::eps<double>;
    CHECK(test::within(total, {expected}, {2 * n_eps * expected}));
  }
}

}  // namespace elementwise_test
