// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/avg_pool.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace avg_pool_test {

using namespace tandem;
using test::Team;

struct Case {
  Extent2d image;
  Window window;
};

constexpr Case cases[] = {
    {{1, 1}, {}},
    {{6, 5}, {{2, 2}, {2, 2}, {0, 0}}},
    {{7, 9}, {{3, 3}, {2, 2}, {1, 1}}},
    {{5, 6}, {{3, 2}, {1, 3}, {1, 0}}},
    {{2, 2}, {{1, 1}, {1, 1}, {1, 1}}},  // windows of padding only
};

/// Calls f(input cell, output cell, divisor) for each pair of one map.
template <class Function>
void each_pair(PoolGeometry const& g, bool include, Function const& f) {
  Window const& window = g.window;
  for (int oh = 0; oh < g.out.height; ++oh) {
    for (int ow = 0; ow < g.out.width; ++ow) {
      std::vector<int> cells;
      for (int u = 0; u < window.kernel.height; ++u) {
        for (int v = 0; v < window.kernel.width; ++v) {
          int const h = oh * window.stride.height - window.padding.height + u;
          int const w = ow * window.stride.width - window.padding.width + v;
          if (h >= 0 && w >= 0 && h < g.in.height && w < g.in.width) {
            cells.push_back(h * g.in.width + w);
          }
        }
      }
      double const divisor =
          include ? window.kernel.height * window.kernel.width : static_cast<double>(cells.size());
      for (int const cell : cells) {
        f(static_cast<std::size_t>(cell), static_cast<std::size_t>(oh * g.out.width + ow), divisor);
      }
    }
  }
}

TEST_CASE_TEMPLATE("avg_pool: the mean, with padding or without; its gradient", T, float, double) {
  int const batch = 3;
  for (Case const& c : cases) {
    for (bool const include : {false, true}) {
      PoolGeometry const g{2, c.image, c.window.positions(c.image), c.window};
      auto const in_pixels = static_cast<std::size_t>(g.in.height * g.in.width);
      auto const out_pixels = static_cast<std::size_t>(g.out.height * g.out.width);
      auto const x = test::random<T>(static_cast<std::int64_t>(batch * 2 * in_pixels), 1);
      auto const dy = test::random<T>(static_cast<std::int64_t>(batch * 2 * out_pixels), 2);
      auto const y = test::on_teams([&](Team& team) {
        auto out = test::poisoned<T>(static_cast<std::int64_t>(dy.size()));
        host::avg_pool_forward(team, g, batch, include, x.data(), out.data());
        return out;
      });
      auto const dx = test::on_teams([&](Team& team) {
        auto out = test::poisoned<T>(static_cast<std::int64_t>(x.size()));
        host::avg_pool_gradient(team, g, batch, include, dy.data(), out.data());
        return out;
      });
      std::vector<double> y_expected(y.size());
      std::vector<double> dx_expected(x.size());
      for (std::size_t map = 0; map < batch * 2; ++map) {
        each_pair(g, include, [&](std::size_t from, std::size_t to, double divisor) {
          std::size_t const i = map * in_pixels + from;
          std::size_t const o = map * out_pixels + to;
          y_expected[o] += static_cast<double>(x[i]) / divisor;
          dx_expected[i] += static_cast<double>(dy[o]) / divisor;
        });
      }
      // Sums of at most 9 terms of at most 1, a division each; the reference rounds too.
      double const bound = 2 * 11 * test::eps<T>;
      CHECK(test::within(y, y_expected, test::constant(y.size(), bound)));
      CHECK(test::within(dx, dx_expected, test::constant(x.size(), 9 * bound)));
    }
  }
}

}  // namespace avg_pool_test
