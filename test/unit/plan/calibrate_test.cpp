// SPDX-License-Identifier: Apache-2.0
// Links that are known are found again from the times that they make.

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/plan/machine/calibrate.hpp>
#include <tandem/plan/machine/fit_kernels.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/machine/timed_all_reduces.hpp>
#include <tandem/plan/machine/timed_products.hpp>

namespace tandem::test {
namespace calibrate_test {

std::vector<TimedAllReduce> times_on(Machine const& machine, std::vector<int> const& devices,
                                     std::vector<double> const& bytes) {
  std::vector<TimedAllReduce> points;
  for (int const count : devices) {
    for (double const size : bytes) {
      points.push_back({count, size, all_reduce_seconds(machine, {count, 1}, size)});
    }
  }
  return points;
}

void check_link(LinkSpeed const& found, LinkSpeed const& wanted) {
  CHECK(found.bandwidth == doctest::Approx(wanted.bandwidth).epsilon(1e-4));
  CHECK(found.latency == doctest::Approx(wanted.latency).epsilon(1e-4));
}

TEST_CASE("links are found again, from presets that are far from them") {
  std::vector<double> const sizes{4096, 1 << 16, 1 << 20, 1 << 24, 1 << 28};
  for (Machine const& known : {dgx1_v100(), dgx_h100(), pcie_box()}) {
    CAPTURE(known.name);
    Machine truth = known;
    truth.inside = {.bandwidth = 0.3 * known.inside.bandwidth, .latency = 7e-6};
    truth.between = {.bandwidth = 0.1 * known.between.bandwidth, .latency = 4e-5};
    std::vector<TimedAllReduce> points = times_on(truth, {2, 4}, sizes);
    Calibration const near = calibrate(known, points);
    check_link(near.machine.inside, truth.inside);
    CHECK(near.machine.between == known.between);
    int const node = known.devices_per_node;
    std::vector<TimedAllReduce> const far = times_on(truth, {2 * node, 4 * node}, sizes);
    points.insert(points.end(), far.begin(), far.end());
    Calibration const both = calibrate(known, points);
    check_link(both.machine.inside, truth.inside);
    check_link(both.machine.between, truth.between);
    CHECK(both.points == 20);
    CHECK(both.worst_error < 1e-3);
    CHECK(both.machine.name == known.name);
  }
}

TEST_CASE("measurements that scatter: as near as can be, and how near") {
  std::vector<TimedAllReduce> points =
      times_on(dgx1_v100(), {2, 4, 8}, {1 << 12, 1 << 18, 1 << 24, 1 << 27});
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].seconds *= i % 2 == 0 ? 1.1 : 1 / 1.1;
  }
  Calibration const fitted = calibrate(pcie_box(), points);
  CHECK(fitted.worst_error < 0.25);
  CHECK(fitted.median_error > 0.02);
  CHECK(fitted.median_error < 0.15);
  CHECK(fitted.machine.inside.bandwidth ==
        doctest::Approx(dgx1_v100().inside.bandwidth).epsilon(0.15));
  // No link nearby is nearer.
  auto const error = [&](double bandwidth, double latency) {
    Machine machine = fitted.machine;
    machine.inside.bandwidth *= bandwidth;
    machine.inside.latency *= latency;
    double sum = 0;
    for (TimedAllReduce const& point : points) {
      double const predicted = all_reduce_seconds(machine, {point.devices, 1}, point.bytes);
      sum += std::pow(std::log(predicted / point.seconds), 2);
    }
    return sum;
  };
  for (double const factor : {0.99, 1.01}) {
    CHECK(error(factor, 1) > error(1, 1));
    CHECK(error(1, factor) > error(1, 1));
  }
}

TEST_CASE("links without a latency, and far less of it than was thought") {
  for (double const latency : {0.0, 1e-12}) {
    Machine truth = dgx1_v100();
    truth.inside = {.bandwidth = 2e9, .latency = latency};
    Machine slow = truth;
    slow.inside = {.bandwidth = 1e13, .latency = 10};
    for (Machine const& start : {dgx1_v100(), slow}) {
      Calibration const fitted =
          calibrate(start, times_on(truth, {2, 8}, {1 << 14, 1 << 18, 1 << 26}));
      CHECK(fitted.machine.inside.bandwidth == doctest::Approx(2e9).epsilon(0.02));
      CHECK(fitted.machine.inside.latency < 3e-9);
      CHECK(fitted.worst_error < 0.1);
    }
  }
}

TEST_CASE("small sums that are faster than the bandwidth of large ones") {
  // Two devices pass on the bytes in two messages of a half: 500 GB/s for one, 5 GB/s for the
  // other.
  std::vector<TimedAllReduce> const points{{2, 2e6, 4e-6}, {2, 2e8, 4e-2}};
  LinkSpeed const link = calibrate(dgx1_v100(), points).machine.inside;
  CHECK(link.bandwidth == doctest::Approx(50e9).epsilon(1e-2));  // as far from either
  CHECK(link.latency < 3e-9);
}

TEST_CASE("of one size only the bandwidth is known") {
  Machine truth = dgx1_v100();
  truth.inside.bandwidth = 5e10;
  Calibration const fitted = calibrate(dgx1_v100(), times_on(truth, {2, 8}, {1 << 26}));
  CHECK(fitted.machine.inside.latency == dgx1_v100().inside.latency);
  CHECK(fitted.machine.inside.bandwidth == doctest::Approx(5e10).epsilon(1e-4));
}

TEST_CASE("what cannot be fitted is refused") {
  Machine const machine = dgx1_v100();
  CHECK_THROWS_WITH_AS(static_cast<void>(calibrate(machine, {})),
                       doctest::Contains("give one point or more"), ContractError);
  for (TimedAllReduce const& point : {TimedAllReduce{1, 8, 1}, {2, 0, 1}, {2, 8, 0}, {2, 8, -1}}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(calibrate(machine, {point})),
                         doctest::Contains("give each point 2 devices or more"), ContractError);
  }
  Machine few = machine;
  few.nodes = 1;
  CHECK_THROWS_AS(static_cast<void>(calibrate(few, {{9, 8, 1}})), ContractError);
}

TEST_CASE("many points of many devices") {  // 10^8 steps an error if each rank were one
  Machine const machine = dgx1_v100();
  std::vector<TimedAllReduce> points;
  for (int i = 0; i < 200; ++i) {
    double const bytes = 1e6 * (i + 1);
    int const devices = 1'000'000 - i;
    points.push_back({devices, bytes, all_reduce_seconds(machine, {devices, 1}, bytes)});
  }
  CHECK(calibrate(machine, points).worst_error < 1e-3);
}

TEST_CASE("links that no machine has are refused") {
  Machine const machine = dgx1_v100();
  CHECK_THROWS_WITH_AS(static_cast<void>(calibrate(machine, {{2, 1e18, 1e-9}, {2, 1, 1e6}})),
                       doctest::Contains("give points of more sizes, in bytes and seconds"),
                       ContractError);
  CHECK_THROWS_AS(  // millions of steps, each of which helps next to nothing
      static_cast<void>(calibrate(machine, {{16, 1e3, 1025}, {6, 1e3, 0.1}, {8, 1e6, 0.1}})),
      ContractError);
}

TEST_CASE("a curve of kernels is found again from its products") {
  Machine truth = dgx_a100();
  truth.kernels.share = 0.62;
  truth.kernels.half_side = 150;
  truth.kernels.half_depth = 30;
  std::vector<TimedProduct> points;
  for (double const side : {128.0, 512.0, 4096.0}) {
    for (double const depth : {256.0, 2048.0, 8192.0}) {
      double const seconds = KernelTimes{truth, MathPrecision::bf16}.product(8 * side, side, depth);
      points.push_back({8 * side, side, depth, seconds});
    }
  }
  for (Machine from : {dgx_a100(), truth}) {
    from.kernels = from.kernels == truth.kernels ? KernelCurve{} : from.kernels;
    KernelFit const fit = fit_kernels(from, points);
    CHECK(fit.machine.kernels.share == doctest::Approx(0.62).epsilon(0.01));
    CHECK(fit.machine.kernels.half_side == doctest::Approx(150).epsilon(0.05));
    CHECK(fit.machine.kernels.half_depth == doctest::Approx(30).epsilon(0.2));
    CHECK(fit.worst_error < 0.01);
    CHECK(fit.points == 9);
  }
  CHECK_THROWS_AS((void)fit_kernels(truth, {}), ContractError);
  CHECK_THROWS_AS((void)fit_kernels(truth, {{1, 1, 0, 1}}), ContractError);
}

TEST_CASE("files of products are read, or refused with line and column") {
  std::string const head = "rows,columns,depth,seconds\n";
  CHECK(parse_products(head + "8,16,32,1e-3\r\n", "p.csv") ==
        std::vector<TimedProduct>{{8, 16, 32, 1e-3}});
  auto const refused = [](std::string const& text, std::string const& sought) {
    try {
      (void)parse_products(text, "p.csv");
      FAIL("not refused: " << text);
    } catch (FileError const& error) {
      CHECK(std::string{error.what()}.find(sought) != std::string::npos);
    }
  };
  refused("8,16,32,1e-3\n", "line 1, column 1");
  refused(head + "8,0,32,1e-3\n", "line 2, column 3");
  refused(head + "8,16,32\n", "line 2, column 6");
  refused(head, "there is no product");
}

TEST_CASE("files of all-reduces are read, or refused with line and column") {
  CHECK(parse_all_reduces("devices,bytes,seconds\n2,1024,1.5e-5\r\n\n16,1e6,0.25", "a.csv") ==
        std::vector<TimedAllReduce>{{2, 1024, 1.5e-5}, {16, 1e6, 0.25}});
  auto const refused = [](std::string const& text, std::string const& what) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(static_cast<void>(parse_all_reduces(text, "a.csv")),
                         doctest::Contains(what.c_str()), FileError);
  };
  std::string const head = "devices,bytes,seconds\n";
  refused("", "there is no all-reduce; write 'devices,bytes,seconds' and a line such as");
  refused(head, "there is no all-reduce");
  refused("bytes,seconds\n8,1", "line 1, column 1: expected 'devices,bytes,seconds'");
  for (char const* const line : {"1,8,1", "2.5,8,1", "x,8,1", "2", "", "-2,8,1", "2000000,8,1"}) {
    refused(head + "4,8,1\n" + line + (*line == '\0' ? " \n" : "\n"),
            "line 3, column 1: expected a number of devices from 2 to 1000000, and a comma");
  }
  for (char const* const line : {"2,0,1", "2,,1", "2,8", "2,8;1", "2,inf,1", "2,", "2,1e19,1"}) {
    refused(head + line,
            "line 2, column 3: expected a positive number of bytes up to 1e18, and a comma");
  }
  for (char const* const line :
       {"2,8,0", "2,8,", "2,8,nan", "2,8,1 ", "2,8,1,", "2,8,-1", "2,8,1e-300"}) {
    refused(head + line,
            "line 2, column 5: expected a positive number of seconds from 1e-9 to 1e6, and the end "
            "of the line");
  }
}

}  // namespace calibrate_test
}  // namespace tandem::test
