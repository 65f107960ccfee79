// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <mlperf_points.hpp>
#include <tandem/plan/epochs/epochs.hpp>

namespace critical_batch_test {

using namespace tandem;

constexpr double infinity = std::numeric_limits<double>::infinity();

bool near(double value, double expected, double relative = 1e-12) {
  return std::fabs(value - expected) <= relative * std::fabs(expected);
}

TEST_CASE("quantiles of Student's t") {
  CHECK(near(detail::student_quantile(1), 12.706, 1e-3));
  CHECK(near(detail::student_quantile(2), 4.303, 1e-3));
  CHECK(near(detail::student_quantile(10), 2.228, 1e-3));
  CHECK(near(detail::student_quantile(11), 2.201, 1e-3));
  CHECK(near(detail::student_quantile(30), 2.042, 1e-3));
  CHECK(near(detail::student_quantile(1'000'000), 1.960, 1e-3));
}

TEST_CASE("a fit finds the law that points lie on") {
  std::vector<EpochPoint> points;
  for (double const batch : {256.0, 1000.0, 5000.0, 40000.0}) {
    points.push_back({batch, 30 * (1 + batch / 8000), 1 + batch / 1000});
  }
  EpochCurve const curve = EpochCurve::fitted(points);
  REQUIRE(curve.law() != nullptr);
  CHECK(near(curve.law()->least_epochs(), 30, 1e-10));
  CHECK(near(curve.law()->critical_batch(), 8000, 1e-10));
  CHECK(curve.law()->critical_batch_error() < 1e-8);
  CHECK(near(curve.epochs(16000), 90, 1e-10));
  CHECK(curve.extrapolates(255));
  CHECK(curve.extrapolates(40001));
  CHECK(!curve.extrapolates(256));
}

// Sum of weighted squared relative errors of E = a (1 + B / b).
double squares(std::vector<EpochPoint> const& points, double a, double b) {
  double sum = 0;
  for (EpochPoint const& p : points) {
    double const error = a * (1 + p.batch / b) / p.epochs - 1;
    sum += p.weight * error * error;
  }
  return sum;
}

TEST_CASE("no law near the fitted one is nearer to the points") {
  for (test::MlperfBenchmark const& benchmark : test::mlperf_points()) {
    CAPTURE(benchmark.name);
    std::vector<EpochPoint> points = benchmark.points;
    points[1].weight = 3;
    CriticalBatchLaw const law = fit_critical_batch(points);
    double const a = law.least_epochs();
    double const b = law.critical_batch();
    double const least = squares(points, a, b);
    for (double const step : {-1e-3, 0.0, 1e-3}) {
      CHECK(squares(points, a * (1 + step), b * 1.001) > least);
      CHECK(squares(points, a * (1 + step), b * 0.999) > least);
    }
    CHECK(squares(points, a * 1.001, b) > least);
    CHECK(squares(points, a * 0.999, b) > least);
  }
}

TEST_CASE("a weight is a number of runs") {
  std::vector<EpochPoint> points{{1000, 40}, {8000, 42, 3}, {33000, 56}, {66000, 84.5}};
  CriticalBatchLaw const law = fit_critical_batch(points);
  for (EpochPoint& p : points) {
    p.weight *= 7;
  }
  CriticalBatchLaw const same = fit_critical_batch(points);
  CHECK(near(same.least_epochs(), law.least_epochs()));
  CHECK(near(same.least_epochs_error(), law.least_epochs_error()));
  CHECK(near(same.critical_batch_error(), law.critical_batch_error()));
}

TEST_CASE("two points fit exactly and tell nothing of errors") {
  CriticalBatchLaw const law = fit_critical_batch({{3264, 35.2}, {65536, 84.5}});
  CHECK(near(law.critical_batch(), 4.1e4, 0.01));
  CHECK(near(law.epochs(32768), 58.6, 1e-3));
  CHECK(law.standard_error(32768) == infinity);
  CHECK(law.critical_batch_error() == infinity);
  CHECK(law.interval(32768).low == 0);
  CHECK(law.interval(32768).high == infinity);
}

TEST_CASE("the law's limits: epochs that fall, and that rise too steeply") {
  CriticalBatchLaw const level = fit_critical_batch({{10, 5}, {20, 4}, {40, 4}});
  CHECK(level.slope == 0);
  CHECK(level.critical_batch() == infinity);
  CHECK(level.critical_batch_error() == infinity);
  CHECK(level.epochs(1000) == level.least_epochs());
  CHECK_THROWS_WITH_AS(static_cast<void>(fit_critical_batch({{10, 1}, {20, 4}})),
                       doctest::Contains("interpolate between the points instead"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(fit_critical_batch({{10, 1}})),
                       doctest::Contains("there are 1; give at least 2"), ContractError);
}

TEST_CASE("a noise scale and one point") {
  EpochCurve const curve = EpochCurve::of_noise(8000, {1000, 45});
  CHECK(near(curve.epochs(1000), 45));
  CHECK(near(curve.law()->least_epochs(), 40));
  CHECK(near(curve.law()->critical_batch(), 8000));
  CHECK(near(curve.epochs(8000), 80));
  CHECK(curve.law()->standard_error(8000) == infinity);
  CHECK(curve.extrapolates(999));
  CHECK(!curve.extrapolates(1000));
  CHECK_THROWS_WITH_AS(static_cast<void>(EpochCurve::of_noise(0, {1000, 45})),
                       doctest::Contains("a noise scale that is positive"), ContractError);
}

// Of a standard normal distribution (Box and Muller).
double normal(std::mt19937& random) {
  double const u = (static_cast<double>(random()) + 1) / 4294967297.0;
  double const v = static_cast<double>(random()) / 4294967296.0;
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
}

TEST_CASE("standard errors are those of repeated fits, and 95 % of intervals hold the truth") {
  std::mt19937 random{11};
  int const trials = 4000;
  double const truth = 30;
  double const critical = 8000;
  double const asked = 20000;
  for (int const count : {3, 6, 16}) {
    CAPTURE(count);
    double least_squares = 0, least_variance = 0, critical_squares = 0, critical_variance = 0;
    int inside = 0;
    for (int trial = 0; trial < trials; ++trial) {
      std::vector<EpochPoint> points;
      for (int i = 0; i < count; ++i) {
        double const batch = 500 + i * 16000.0 / (count - 1);
        double const scatter = 1 + 0.01 * normal(random);
        points.push_back({batch, truth * (1 + batch / critical) * scatter});
      }
      CriticalBatchLaw const law = fit_critical_batch(points);
      least_squares += std::pow(law.least_epochs() - truth, 2);
      least_variance += std::pow(law.least_epochs_error(), 2);
      critical_squares += std::pow(law.critical_batch() - critical, 2);
      critical_variance += std::pow(law.critical_batch_error(), 2);
      ConfidenceInterval const interval = law.interval(asked);
      double const expected = truth * (1 + asked / critical);
      inside += interval.low <= expected && expected <= interval.high ? 1 : 0;
    }
    // The sampling error of a ratio of these sums is about sqrt(4 / trials), 3 %.
    CHECK(near(least_squares / least_variance, 1, 0.12));
    CHECK(near(critical_squares / critical_variance, 1, 0.12));
    CHECK(near(static_cast<double>(inside) / trials, 0.95, 0.015));
  }
}

}  // namespace critical_batch_test
