// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/batch_norm.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace batch_norm_test {

using namespace tandem;
using test::Team;

constexpr double epsilon = 0x1p-10;

struct Sizes {
  int batch, channels, pixels;

  [[nodiscard]] std::int64_t elements() const { return std::int64_t{batch} * channels * pixels; }
  [[nodiscard]] int channel(std::size_t i) const { return static_cast<int>(i) / pixels % channels; }
};

constexpr Sizes sizes[] = {{2, 1, 1}, {1, 3, 2}, {3, 2, 35}, {17, 5, 1}, {4, 3, 64}};

template <class T>
struct Output {
  std::vector<T> y, mean, inverse, variance;
};

template <class T>
Output<T> forward(Team& team, Sizes const& n, std::vector<T> const& x, std::vector<T> const& gain,
                  std::vector<T> const& bias) {
  Output<T> out{test::poisoned<T>(n.elements()), test::poisoned<T>(n.channels),
                test::poisoned<T>(n.channels), test::poisoned<T>(n.channels)};
  host::batch_norm_forward(team, n.batch, n.channels, n.pixels, x.data(), gain.data(), bias.data(),
                           static_cast<T>(epsilon), out.y.data(), out.mean.data(),
                           out.inverse.data(), out.variance.data());
  return out;
}

template <class T>
std::vector<T> input_gradient(Team& team, Sizes const& n, std::vector<T> const& x,
                              std::vector<T> const& dy, std::vector<T> const& gain,
                              Output<T> const& saved) {
  auto dx = test::poisoned<T>(n.elements());
  host::batch_norm_input_gradient(team, n.batch, n.channels, n.pixels, x.data(), dy.data(),
                                  gain.data(), saved.mean.data(), saved.inverse.data(), dx.data());
  auto place = dy;
  host::batch_norm_input_gradient(team, n.batch, n.channels, n.pixels, x.data(), place.data(),
                                  gain.data(), saved.mean.data(), saved.inverse.data(),
                                  place.data());
  CHECK(test::same_bits(place, dx));
  return dx;
}

TEST_CASE_TEMPLATE("batch_norm_forward: statistics and output", T, float, double) {
  for (Sizes const& n : sizes) {
    auto const x = test::random<T>(n.elements(), 1);
    auto const gain = test::random<T>(n.channels, 2);
    auto const bias = test::random<T>(n.channels, 3);
    Team team{1};
    Output<T> const out = forward(team, n, x, gain, bias);
    test::on_teams([&](Team& other) {
      Output<T> const o = forward(other, n, x, gain, bias);
      return test::joined({o.y, o.mean, o.inverse, o.variance});
    });
    // To first order, with r roundings of at most eps in each sum, |x| <= 1 and |x - mean| <= 2:
    // mean is off by r eps, x - mean by e = 2 r eps, the variance by v = 2 · 2 e + 4 r eps, the
    // inverse deviation, relatively, by v / 2 / (variance + epsilon), and y by all of them.
    double const count = n.batch * n.pixels;
    double const r_eps = (n.pixels + 4) * test::eps<T> + count * test::eps<double>;
    for (int c = 0; c < n.channels; ++c) {
      double mean = 0;
      double variance = 0;
      auto const each = [&](auto const& f) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (n.channel(i) == c) {
            f(i, static_cast<double>(x[i]));
          }
        }
      };
      each([&](std::size_t, double value) { mean += value / count; });
      each([&](std::size_t, double value) { variance += (value - mean) * (value - mean) / count; });
      double const inverse = 1 / std::sqrt(variance + epsilon);
      double const v = 12 * r_eps;
      double const relative = v / 2 * inverse * inverse + 2 * test::eps<T>;
      auto const at = static_cast<std::size_t>(c);
      CHECK(!(std::abs(static_cast<double>(out.mean[at]) - mean) > r_eps));
      CHECK(!(std::abs(static_cast<double>(out.variance[at]) - variance) > v));
      CHECK(!(std::abs(static_cast<double>(out.inverse[at]) - inverse) > relative * inverse));
      each([&](std::size_t i, double value) {
        double const g = static_cast<double>(gain[at]);
        double const expected = (value - mean) * inverse * g + static_cast<double>(bias[at]);
        double const bound = inverse * std::abs(g) * (2 * r_eps + 2 * relative) +
                             2 * test::eps<T> * (1 + 2 * inverse);
        CHECK(std::abs(static_cast<double>(out.y[i]) - expected) <= bound);
      });
    }
  }
}

TEST_CASE("batch_norm: both gradients are finite differences") {
  Team team{2};
  for (Sizes const& n : sizes) {
    auto const x = test::random<double>(n.elements(), 1);
    auto const gain = test::random<double>(n.channels, 2);
    auto const bias = test::random<double>(n.channels, 3);
    auto const dy = test::random<double>(n.elements(), 4);
    auto const saved = forward(team, n, x, gain, bias);
    // Third derivatives in x go with 1 / deviation³ <= 2^15: h² 2^15 / 6 and eps / h, times sums.
    double const tolerance = 1e-5;
    auto const dx = input_gradient(team, n, x, dy, gain, saved);
    auto const dx_expected = test::finite_differences(x, [&](std::vector<double> const& at) {
      return test::dot(forward(team, n, at, gain, bias).y, dy);
    });
    CHECK(test::within(dx, dx_expected, test::constant(dx.size(), tolerance)));
    std::vector<double> dgain(gain.size());
    std::vector<double> dbias(gain.size());
    host::batch_norm_parameter_gradient(team, n.batch, n.channels, n.pixels, x.data(), dy.data(),
                                        saved.mean.data(), saved.inverse.data(), dgain.data(),
                                        dbias.data(), false);
    auto const dgain_expected = test::finite_differences(gain, [&](std::vector<double> const& at) {
      return test::dot(forward(team, n, x, at, bias).y, dy);
    });
    auto const dbias_expected = test::finite_differences(bias, [&](std::vector<double> const& at) {
      return test::dot(forward(team, n, x, gain, at).y, dy);
    });
    // Linear: only the rounding of the two sums, divided by h.
    CHECK(test::within(dgain, dgain_expected, test::constant(dgain.size(), 1e-7)));
    CHECK(test::within(dbias, dbias_expected, test::constant(dbias.size(), 1e-7)));
  }
}

TEST_CASE_TEMPLATE("batch_norm gradients: bits, accumulation, float against double", T, float,
                   double) {
  for (Sizes const& n : sizes) {
    auto const x = test::random<T>(n.elements(), 1);
    auto const gain = test::random<T>(n.channels, 2);
    auto const bias = test::random<T>(n.channels, 3);
    auto const dy = test::random<T>(n.elements(), 4);
    auto const old = test::random<T>(2 * n.channels, 5);
    Team team{1};
    auto const saved = forward(team, n, x, gain, bias);
    auto const dx =
        test::on_teams([&](Team& other) { return input_gradient(other, n, x, dy, gain, saved); });
    auto const gradients = [&](bool accumulate) {
      return test::on_teams([&](Team& other) {
        auto both = accumulate ? old : test::poisoned<T>(2 * n.channels);
        host::batch_norm_parameter_gradient(other, n.batch, n.channels, n.pixels, x.data(),
                                            dy.data(), saved.mean.data(), saved.inverse.data(),
                                            both.data(), both.data() + n.channels, accumulate);
        return both;
      });
    };
    auto const written = gradients(false);
    auto const added = gradients(true);
    for (std::size_t i = 0; i < old.size(); ++i) {
      CHECK(added[i] == old[i] + written[i]);
    }
    // The same formulas in double, on the same saved statistics.
    auto const wide = [](std::vector<T> const& v) {
      return std::vector<double>(v.begin(), v.end());
    };
    Output<double> const wide_saved{{}, wide(saved.mean), wide(saved.inverse), {}};
    auto const dx_expected = input_gradient(team, n, wide(x), wide(dy), wide(gain), wide_saved);
    std::vector<double> expected(old.size());
    host::batch_norm_parameter_gradient(team, n.batch, n.channels, n.pixels, wide(x).data(),
                                        wide(dy).data(), wide_saved.mean.data(),
                                        wide_saved.inverse.data(), expected.data(),
                                        expected.data() + n.channels, false);
    // |dy| <= 1, |x - mean| <= 2: a mean of dy (x - mean) is off by 2 (pixels + 4) eps, the slope
    // by that times inverse², dx by (1 + 4 inverse²) (pixels + 8) eps times inverse.
    double const largest =
        static_cast<double>(*std::max_element(saved.inverse.begin(), saved.inverse.end()));
    double const r_eps = (n.pixels + 8) * test::eps<T>;
    CHECK(test::within(dx, dx_expected,
                       test::constant(dx.size(), largest * (1 + 4 * largest * largest) * r_eps)));
    CHECK(test::within(written, expected,
                       test::constant(old.size(), n.batch * n.pixels * 2 * (1 + largest) * r_eps)));
  }
}

TEST_CASE_TEMPLATE("batch_norm_statistics: weighted mean and unbiased variance", T, float, double) {
  for (std::int64_t const count : {1, 2, 100}) {
    auto const mean = test::random<T>(5, 1);
    auto const variance = test::random<T>(5, 2);
    auto const old = test::random<T>(10, 3);
    for (bool const accumulate : {false, true}) {
      auto const out = test::on_teams([&](Team& team) {
        auto both = accumulate ? old : test::poisoned<T>(10);
        host::batch_norm_statistics(team, 5, count, T{0.25}, mean.data(), variance.data(),
                                    both.data(), both.data() + 5, accumulate);
        return both;
      });
      double const n = static_cast<double>(count);
      double const unbiased = count > 1 ? n / (n - 1) : 1;
      for (std::size_t c = 0; c < 5; ++c) {
        double const old_mean = accumulate ? static_cast<double>(old[c]) : 0;
        double const old_variance = accumulate ? static_cast<double>(old[c + 5]) : 0;
        double const bound = 3 * test::eps<T>;  // at most 1.5 in size, three roundings of eps / 2
        CHECK(std::abs(static_cast<double>(out[c]) -
                       (old_mean + 0.25 * static_cast<double>(mean[c]))) <= bound);
        CHECK(std::abs(static_cast<double>(out[c + 5]) -
                       (old_variance + 0.25 * unbiased * static_cast<double>(variance[c]))) <=
              bound);
      }
    }
  }
}

}  // namespace batch_norm_test
