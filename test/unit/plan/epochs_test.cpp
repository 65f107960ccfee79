// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mlperf_points.hpp>
#include <tandem/plan/epochs/epochs.hpp>

namespace epochs_test {

using namespace tandem;

constexpr double infinity = std::numeric_limits<double>::infinity();

bool near(double value, double expected, double relative = 1e-12) {
  return std::fabs(value - expected) <= relative * std::fabs(expected);
}

std::vector<EpochPoint> inception() { return parse_epoch_points("2048:4,4096:7,8192:12,16384:23"); }

TEST_CASE("points are read from their text") {
  CHECK(inception() == std::vector<EpochPoint>{{2048, 4}, {4096, 7}, {8192, 12}, {16384, 23}});
  CHECK(parse_epoch_points("32:0.5") == std::vector<EpochPoint>{{32, 0.5}});
  CHECK(parse_epoch_points("1:2, 1e3:2.5e0") == std::vector<EpochPoint>{{1, 2}, {1000, 2.5}});
}

void refused(char const* text, char const* what) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(static_cast<void>(parse_epoch_points(text)), doctest::Contains(what),
                       ContractError);
}

TEST_CASE("another text is refused with its column") {
  refused(
      "",
      "epochs \"\", column 1: expected a global batch, a positive number from 1e-9 to 1e12; write "
      "batch:epochs pairs such as 2048:4,4096:7");
  refused("2048", "column 5: expected ':' between batch and epochs");
  refused("2048:", "column 6: expected a number of epochs, a positive number");
  refused("2048:4;4096:7", "column 7: expected ',' or the end");
  refused("2048:4,", "column 8: expected a global batch");
  refused("2048:4, x:7", "column 9: expected a global batch");
  refused("2048:4,2048:7", "column 8: this batch is not larger than the one before");
  refused("2048:4,1024:7", "column 8: this batch is not larger than the one before");
  refused("0:4", "column 1: expected a global batch");
  refused("-8:4", "column 1: expected a global batch");
  refused("8:-4", "column 3: expected a number of epochs");
  refused("8:nan", "column 3: expected a number of epochs");
  refused("inf:1", "column 1: expected a global batch");
  refused("8:1e999", "column 3: expected a number of epochs");
  refused("8:1e300", "column 3: expected a number of epochs");
  refused("1e-300:1", "column 1: expected a global batch");
  refused("8:4 ", "column 4: expected ',' or the end");
}

TEST_CASE("points so steep that nothing finite is beyond them are refused there") {
  EpochCurve const curve = EpochCurve::measured(parse_epoch_points("64:1,64.000001:1000"));
  CHECK(curve.epochs(64) == 1);
  CHECK_THROWS_WITH_AS(static_cast<void>(curve.epochs(128)),
                       doctest::Contains("give points whose batches are further apart"),
                       ContractError);
}

TEST_CASE("a measured curve goes through its points and multiplies between them") {
  EpochCurve const curve = EpochCurve::measured(inception());
  for (EpochPoint const& point : inception()) {
    CHECK(near(curve.epochs(point.batch), point.epochs));
    CHECK(!curve.extrapolates(point.batch));
  }
  CHECK(near(curve.epochs(std::sqrt(4096.0 * 8192.0)), std::sqrt(7.0 * 12.0)));
  CHECK(near(curve.epochs(4096 * std::pow(2.0, 0.25)), 7 * std::pow(12.0 / 7, 0.25)));
  CHECK(curve.law() == nullptr);
}

TEST_CASE("outside its points a measured curve is level below and goes on above") {
  EpochCurve const curve = EpochCurve::measured(inception());
  CHECK(curve.epochs(1) == 4);
  CHECK(curve.extrapolates(2047));
  CHECK(near(curve.epochs(32768), 23 * 23.0 / 12));
  CHECK(curve.extrapolates(16385));
  EpochCurve const falling = EpochCurve::measured({{10, 5}, {20, 7}, {40, 6}});
  CHECK(falling.epochs(1000) == 6);
  CHECK(near(falling.epochs(40), 6));
  EpochCurve const one = EpochCurve::measured({{10, 5}});
  CHECK(one.epochs(1) == 5);
  CHECK(one.epochs(1000) == 5);
  CHECK(one.extrapolates(11));
  CHECK(!one.extrapolates(10));
}

TEST_CASE("curves refuse points in disorder and batches of nothing") {
  CHECK_THROWS_WITH_AS(static_cast<void>(EpochCurve::measured({})),
                       doctest::Contains("there are 0; give at least 1"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(EpochCurve::measured({{20, 1}, {10, 1}})),
                       doctest::Contains("in order of batch"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(EpochCurve::measured({{10, 1}, {10, 2}})),
                       doctest::Contains("each batch once"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(EpochCurve::measured({{10, infinity}})),
                       doctest::Contains("that are positive"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(EpochCurve::fitted({{10, 1}, {20, 1, 0}})),
                       doctest::Contains("that are positive"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(EpochCurve::measured({{10, 1}}).epochs(0)),
                       doctest::Contains("at least one sample"), ContractError);
}

struct Errors {
  std::vector<LeftOutPoint> all;
  std::vector<LeftOutPoint> inner;
  std::string worst;
  LeftOutPoint worst_point{};
};

template <class Make>
Errors errors_on_mlperf(Make const& make) {
  Errors out;
  for (test::MlperfBenchmark const& benchmark : test::mlperf_points()) {
    for (LeftOutPoint const& each : leave_one_out(benchmark.points, make)) {
      out.all.push_back(each);
      if (!each.extrapolated) {
        out.inner.push_back(each);
      }
      if (out.worst.empty() || each.error() > out.worst_point.error()) {
        out.worst = benchmark.name;
        out.worst_point = each;
      }
    }
  }
  return out;
}

TEST_CASE("points of MLPerf that are left out are predicted within 5 % in the median") {
  Errors const measured = errors_on_mlperf(EpochCurve::measured);
  REQUIRE(measured.all.size() == 39);
  REQUIRE(measured.inner.size() == 27);
  CHECK(median_error(measured.all) <= 0.05);
  CHECK(median_error(measured.inner) <= 0.04);
  // The worst: RetinaNet's last point, where its epochs double within one doubling of the batch.
  CHECK(measured.worst == "RetinaNet");
  CHECK(measured.worst_point.point.batch == 4096);
  CHECK(near(measured.worst_point.error(), 0.327, 0.01));

  Errors const fitted = errors_on_mlperf(EpochCurve::fitted);
  CHECK(median_error(fitted.all) <= 0.05);
  CHECK(fitted.worst == "RetinaNet");
  CHECK(fitted.worst_point.point.batch == 4096);
  CHECK(near(fitted.worst_point.error(), 0.155, 0.01));
  MESSAGE("medians: measured ", median_error(measured.all), ", fitted ", median_error(fitted.all),
          "; without first and last points ", median_error(measured.inner), " and ",
          median_error(fitted.inner));
  MESSAGE("worst: measured ", measured.worst, " ", measured.worst_point.error(), ", fitted ",
          fitted.worst, " ", fitted.worst_point.error());
}

TEST_CASE("the median of errors") {
  auto const left_out = [](double predicted) { return LeftOutPoint{{1, 1}, predicted}; };
  CHECK(median_error({left_out(1.5)}) == 0.5);
  CHECK(median_error({left_out(1.5), left_out(1), left_out(0)}) == 0.5);
  CHECK(median_error({left_out(1.5), left_out(1)}) == 0.25);
  CHECK_THROWS_WITH_AS(static_cast<void>(median_error({})), doctest::Contains("at least one point"),
                       ContractError);
}

}  // namespace epochs_test
