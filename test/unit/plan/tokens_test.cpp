// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/plan/epochs/epochs.hpp>
#include <tandem/plan/epochs/tokens.hpp>

namespace tokens_test {

using namespace tandem;

TEST_CASE("tokens to a loss become epochs of sequences, weights stay") {
  std::vector<EpochPoint> const points =
      epochs_of_tokens({{65'536, 2e9, 3}, {131'072, 3e9}}, 1024, 1e6);
  CHECK(points == std::vector<EpochPoint>{{64, 2e9 / 1.024e9, 3}, {128, 3e9 / 1.024e9}});
  CHECK_THROWS_AS(static_cast<void>(epochs_of_tokens({}, 1024, 1)), ContractError);
  CHECK_THROWS_AS(static_cast<void>(epochs_of_tokens({{1, 1}}, 0, 1)), ContractError);
}

TEST_CASE("the noise scale of gradients with a known mean and covariance") {
  // Of B samples E|g|² = |G|² + tr(S) / B: with |G|² = 4 and tr(S) = 12 a scale of 3.
  auto const norm = [](double batch) { return GradientNorm{batch, 4 + 12 / batch}; };
  CHECK(gradient_noise_scale(norm(1), norm(64)) == doctest::Approx(3));
  CHECK(gradient_noise_scale(norm(8), norm(16)) == doctest::Approx(3));

  std::mt19937 random{1};  // and as it is measured: 3 numbers, means 2, 0, 0, variances 4
  std::normal_distribution<double> noise{0, 2};
  auto const measured = [&](int batch) {
    double squares = 0;
    for (int step = 0; step < 4000; ++step) {
      double sum[3] = {2.0 * batch, 0, 0};
      for (int i = 0; i < 3 * batch; ++i) {
        sum[i % 3] += noise(random);
      }
      squares += (sum[0] * sum[0] + sum[1] * sum[1] + sum[2] * sum[2]) / (batch * batch);
    }
    return GradientNorm{static_cast<double>(batch), squares / 4000};
  };
  double const scale = gradient_noise_scale(measured(2), measured(32));
  CHECK(scale == doctest::Approx(3).epsilon(0.05));
  EpochCurve const curve = EpochCurve::of_noise(3, {.batch = 3, .epochs = 10});
  CHECK(curve.epochs(1e-9) == doctest::Approx(5));

  CHECK_THROWS_AS(static_cast<void>(gradient_noise_scale(norm(8), norm(8))), ContractError);
  CHECK_THROWS_AS(static_cast<void>(gradient_noise_scale({1, 1}, {2, 2})), ContractError);
  CHECK_THROWS_AS(static_cast<void>(gradient_noise_scale({1, 9}, {2, 4})), ContractError);
}

TEST_CASE("the critical batch of a loss") {
  CHECK(critical_batch_of_loss(1) == doctest::Approx(2.1e8));
  CHECK(critical_batch_of_loss(3) == doctest::Approx(1.122e6).epsilon(1e-3));
  CHECK_THROWS_AS(static_cast<void>(critical_batch_of_loss(0)), ContractError);
}

}  // namespace tokens_test
