// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/batch_norm_evaluation.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace batch_norm_evaluation_test {

using namespace tandem;
using test::Team;

constexpr double epsilon = 0x1p-10;

struct Sizes {
  int batch, channels, pixels;
};

TEST_CASE_TEMPLATE("batch_norm_evaluation: an affine map, its gradients", T, float, double) {
  for (auto const& n : {Sizes{0, 2, 3}, {1, 1, 1}, {3, 2, 35}, {17, 5, 1}}) {
    auto const at = [&](std::size_t i) {
      return i / static_cast<std::size_t>(n.pixels) % static_cast<std::size_t>(n.channels);
    };
    std::int64_t const elements = std::int64_t{n.batch} * n.channels * n.pixels;
    auto const x = test::random<T>(elements, 1);
    auto const dy = test::random<T>(elements, 2);
    auto const gain = test::random<T>(n.channels, 3);
    auto const bias = test::random<T>(n.channels, 4);
    auto const mean = test::random<T>(n.channels, 5);
    auto variance = test::random<T>(n.channels, 6);
    for (T& value : variance) {
      value = value * value;
    }
    auto const old = test::random<T>(2 * n.channels, 7);
    auto const y = test::on_teams([&](Team& team) {
      auto out = test::poisoned<T>(elements);
      host::batch_norm_evaluation_forward(team, n.batch, n.channels, n.pixels, x.data(),
                                          gain.data(), bias.data(), mean.data(), variance.data(),
                                          static_cast<T>(epsilon), out.data());
      auto place = x;
      host::batch_norm_evaluation_forward(team, n.batch, n.channels, n.pixels, place.data(),
                                          gain.data(), bias.data(), mean.data(), variance.data(),
                                          static_cast<T>(epsilon), place.data());
      CHECK(test::same_bits(place, out));
      return out;
    });
    auto const dx = test::on_teams([&](Team& team) {
      auto out = test::poisoned<T>(elements);
      host::batch_norm_evaluation_input_gradient(team, n.batch, n.channels, n.pixels, dy.data(),
                                                 gain.data(), variance.data(),
                                                 static_cast<T>(epsilon), out.data());
      return out;
    });
    auto const gradients = [&](bool accumulate) {
      return test::on_teams([&](Team& team) {
        auto both = accumulate ? old : test::poisoned<T>(2 * n.channels);
        host::batch_norm_evaluation_parameter_gradient(
            team, n.batch, n.channels, n.pixels, x.data(), dy.data(), mean.data(), variance.data(),
            static_cast<T>(epsilon), both.data(), both.data() + n.channels, accumulate);
        return both;
      });
    };
    auto const written = gradients(false);
    auto const added = gradients(true);
    std::vector<double> expected(old.size());
    std::vector<double> bound(old.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::size_t const c = at(i);
      double const inverse = 1 / std::sqrt(static_cast<double>(variance[c]) + epsilon);
      double const scale = inverse * static_cast<double>(gain[c]);
      double const distance = static_cast<double>(x[i]) - static_cast<double>(mean[c]);
      double const value = distance * scale + static_cast<double>(bias[c]);
      double const slope = static_cast<double>(dy[i]) * scale;
      // Four roundings: the inverse, the scale, the distance and the product; the bias adds one.
      CHECK(std::abs(static_cast<double>(y[i]) - value) <=
            2.1 * test::eps<T> * (std::abs(distance * scale) + std::abs(value)));
      CHECK(std::abs(static_cast<double>(dx[i]) - slope) <= 1.6 * test::eps<T> * std::abs(slope));
      auto const channels = static_cast<std::size_t>(n.channels);
      double const term = static_cast<double>(dy[i]) * distance * inverse;
      double const r_eps = (n.pixels + 4) * test::eps<T> + n.batch * test::eps<double>;
      expected[c] += term;
      expected[channels + c] += static_cast<double>(dy[i]);
      bound[c] += r_eps * std::abs(term);
      bound[channels + c] += r_eps * std::abs(static_cast<double>(dy[i]));
    }
    CHECK(test::within(written, expected, bound));
    for (std::size_t i = 0; i < old.size(); ++i) {
      CHECK(added[i] == old[i] + written[i]);
    }
  }
}

}  // namespace batch_norm_evaluation_test
