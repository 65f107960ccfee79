// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/subsample.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace subsample_test {

using namespace tandem;
using test::Team;

static_assert(SubsampleGeometry{16, 32, {32, 32}, 2}.out() == Extent2d{16, 16});
static_assert(SubsampleGeometry{16, 32, {5, 1}, 2}.out() == Extent2d{3, 1});
static_assert(SubsampleGeometry{3, 6, {1, 1}, 2}.first() == 1);  // one zero before, two behind

TEST_CASE_TEMPLATE("subsample: every s-th pixel, zeros around; its gradient", T, float, double) {
  SubsampleGeometry const geometries[] = {
      {1, 1, {1, 1}, 1}, {3, 6, {5, 4}, 2}, {2, 2, {7, 7}, 3}, {4, 9, {1, 6}, 2}};
  for (SubsampleGeometry const& g : geometries) {
    int const batch = 3;
    auto const [rows, columns] = g.out();
    std::int64_t const in = std::int64_t{batch} * g.in_channels * g.in.height * g.in.width;
    std::int64_t const out = std::int64_t{batch} * g.out_channels * rows * columns;
    auto const x = test::random<T>(in, 1);
    auto const dy = test::random<T>(out, 2);
    auto const y = test::on_teams([&](Team& team) {
      auto result = test::poisoned<T>(out);
      host::subsample_forward(team, g, batch, x.data(), result.data());
      return result;
    });
    auto const dx = test::on_teams([&](Team& team) {
      auto result = test::poisoned<T>(in);
      host::subsample_gradient(team, g, batch, dy.data(), result.data());
      return result;
    });
    std::vector<T> y_expected(y.size());
    std::vector<T> dx_expected(dx.size());
    for (int s = 0; s < batch; ++s) {
      for (int c = 0; c < g.in_channels; ++c) {
        for (int h = 0; h < rows; ++h) {
          for (int w = 0; w < columns; ++w) {
            auto const to = static_cast<std::size_t>(
                ((s * g.out_channels + c + (g.out_channels - g.in_channels) / 2) * rows + h) *
                    columns +
                w);
            auto const from = static_cast<std::size_t>(
                ((s * g.in_channels + c) * g.in.height + h * g.stride) * g.in.width + w * g.stride);
            y_expected[to] = x[from];
            dx_expected[from] = dy[to];
          }
        }
      }
    }
    CHECK(test::same_bits(y, y_expected));
    CHECK(test::same_bits(dx, dx_expected));
  }
}

}  // namespace subsample_test
