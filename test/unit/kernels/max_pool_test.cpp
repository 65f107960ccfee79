// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/max_pool.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace max_pool_test {

using namespace tandem;
using test::Team;

struct Case {
  Extent2d image;
  Window window;
};

constexpr Case cases[] = {
    {{1, 1}, {}},
    {{6, 5}, {{2, 2}, {2, 2}, {0, 0}}},
    {{7, 9}, {{3, 3}, {2, 2}, {1, 1}}},  // overlapping
    {{5, 6}, {{3, 2}, {1, 3}, {1, 0}}},  // rectangular
    {{8, 40}, {{3, 3}, {1, 1}, {1, 1}}},
    {{2, 2}, {{1, 1}, {1, 1}, {1, 1}}},  // windows of padding only
};

PoolGeometry geometry(Case const& c, int channels) {
  return {channels, c.image, c.window.positions(c.image), c.window};
}

template <class T>
std::vector<T> forward(Team& team, PoolGeometry const& g, int batch, std::vector<T> const& x,
                       std::vector<std::int32_t>& index) {
  auto y = test::poisoned<T>(std::int64_t{batch} * g.channels * g.out.height * g.out.width);
  index.assign(y.size(), -7);
  host::max_pool_forward(team, g, batch, x.data(), y.data(), index.data());
  return y;
}

TEST_CASE_TEMPLATE("max_pool: the largest cell, the first of equals", T, float, double) {
  int const batch = 3;
  for (Case const& c : cases) {
    PoolGeometry const g = geometry(c, 2);
    auto x = test::random<T>(std::int64_t{batch} * 2 * g.in.height * g.in.width, 1);
    for (T& value : x) {
      value = static_cast<T>(static_cast<int>(value * 4));  // many ties
    }
    std::vector<std::int32_t> index;
    Team one{1};
    auto const y = forward(one, g, batch, x, index);
    test::on_teams([&](Team& team) {
      std::vector<std::int32_t> other;
      auto const result = forward(team, g, batch, x, other);
      CHECK(other == index);
      return result;
    });
    std::size_t i = 0;
    for (int map = 0; map < batch * 2; ++map) {
      for (int oh = 0; oh < g.out.height; ++oh) {
        for (int ow = 0; ow < g.out.width; ++ow, ++i) {
          T best = -std::numeric_limits<T>::infinity();
          std::int32_t where = -1;
          for (int u = 0; u < c.window.kernel.height; ++u) {
            for (int v = 0; v < c.window.kernel.width; ++v) {
              int const h = oh * c.window.stride.height - c.window.padding.height + u;
              int const w = ow * c.window.stride.width - c.window.padding.width + v;
              if (h < 0 || w < 0 || h >= g.in.height || w >= g.in.width) {
                continue;
              }
              T const value = x[static_cast<std::size_t>((map * g.in.height + h) * g.in.width + w)];
              if (value > best) {
                best = value;
                where = h * g.in.width + w;
              }
            }
          }
          CHECK(y[i] == best);
          CHECK(index[i] == where);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("max_pool_gradient: dy to the chosen cell, in row order", T, float, double) {
  int const batch = 2;
  for (Case const& c : cases) {
    PoolGeometry const g = geometry(c, 3);
    auto const x = test::random<T>(std::int64_t{batch} * 3 * g.in.height * g.in.width, 1);
    std::vector<std::int32_t> index;
    Team one{1};
    auto const y = forward(one, g, batch, x, index);
    auto const dy = test::random<T>(static_cast<std::int64_t>(y.size()), 2);
    auto const dx = test::on_teams([&](Team& team) {
      auto out = test::poisoned<T>(static_cast<std::int64_t>(x.size()));
      host::max_pool_gradient(team, g, batch, dy.data(), index.data(), out.data());
      return out;
    });
    std::vector<T> expected(x.size());
    auto const out_pixels = static_cast<std::size_t>(g.out.height * g.out.width);
    auto const in_pixels = static_cast<std::size_t>(g.in.height * g.in.width);
    for (std::size_t i = 0; i < dy.size(); ++i) {
      if (index[i] >= 0) {
        expected[i / out_pixels * in_pixels + static_cast<std::size_t>(index[i])] += dy[i];
      }
    }
    CHECK(test::same_bits(dx, expected));
  }
}

TEST_CASE("max_pool_gradient is a finite difference") {
  Team team{2};
  PoolGeometry const g = geometry(cases[2], 2);
  auto const x = test::random<double>(2 * 2 * 7 * 9, 1);
  std::vector<std::int32_t> index;
  auto const y = forward(team, g, 2, x, index);
  auto const dy = test::random<double>(static_cast<std::int64_t>(y.size()), 2);
  std::vector<double> dx(x.size());
  host::max_pool_gradient(team, g, 2, dy.data(), index.data(), dx.data());
  auto const expected = test::finite_differences(x, [&](std::vector<double> const& at) {
    std::vector<std::int32_t> other;
    return test::dot(forward(team, g, 2, at, other), dy);
  });
  // Linear around x: the rounding of a sum of 80 terms of at most 1, divided by h = 2^-17.
  CHECK(test::within(dx, expected, test::constant(dx.size(), 1e-8)));
}

TEST_CASE_TEMPLATE("max_pool: a NaN wins, and minus infinity is a value", T, float, double) {
  Team team{1};
  PoolGeometry const g{1, {1, 4}, {1, 2}, {{1, 2}, {1, 2}, {0, 0}}};
  T const infinity = std::numeric_limits<T>::infinity();
  std::vector<std::int32_t> index;
  auto const y = forward<T>(team, g, 1, {test::nan<T>, 5, -infinity, -infinity}, index);
  CHECK(y[0] != y[0]);
  CHECK(y[1] == -infinity);
  CHECK(index == std::vector<std::int32_t>{0, 2});
}

}  // namespace max_pool_test
