// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <random>

#include <doctest/doctest.h>

#include <tandem/plan/epochs/convergence_time.hpp>

namespace convergence_time_test {

using namespace tandem;

static_assert(ConvergenceTime{.step = 0.5, .steps_per_epoch = 100, .epochs = 3}.seconds() == 150);
static_assert(scaling_efficiency(2, 4) == 0.5);
static_assert(split_speedup(3, 2) == 1.5);

bool near(double value, double expected, double tolerance) {
  return std::fabs(value - expected) <= tolerance;
}

TEST_CASE("gains of the paper follow from its split speedups and epochs") {
  // 26.5 % (Inception-V3), 22 % (BigLSTM), 8 % (GNMT)
  CHECK(near(HybridChoice{.split = 1.32, .epochs = 12, .epochs_more = 23}.gain(), 0.265, 1e-12));
  CHECK(near(HybridChoice{.split = 1.22, .epochs = 1, .epochs_more = 2}.gain(), 0.22, 1e-12));
  CHECK(near(HybridChoice{.split = 1.15, .epochs_more = 1.8783}.gain(), 0.08, 5e-5));
}

TEST_CASE("where the hybrid begins to win: 2 / SU^2 in epochs") {
  CHECK(near(2 / 1.32, 1.515, 5e-4));
  for (double const split : {1.32, 1.15, 1.22}) {
    double const ratio = 2 / split;
    CHECK(!HybridChoice{.split = split, .epochs_more = ratio * 0.999}.hybrid_wins());
    CHECK(HybridChoice{.split = split, .epochs_more = ratio * 1.001}.hybrid_wins());
  }
}

TEST_CASE("Inception-V3 on 32 to 256 devices") {
  struct Row {
    int devices;
    double epochs;       // at 64 images a device
    double epochs_half;  // at half of that batch
    double data_parallel, hybrid, gain;
  };
  constexpr Row rows[] = {{32, 4, 4, 32.0, 21.1, -0.34},
                          {64, 7, 4, 36.6, 42.2, 0.155},
                          {128, 12, 7, 42.7, 48.3, 0.131},
                          {256, 23, 12, 44.5, 56.3, 0.265}};
  for (Row const& row : rows) {
    CAPTURE(row.devices);
    double const plain = data_parallel_speedup({row.devices, 1, row.epochs}, 4);
    double const hybrid = hybrid_speedup(1.32, {row.devices / 2, 1, row.epochs_half}, 4);
    CHECK(near(plain, row.data_parallel, 0.05));
    CHECK(near(hybrid, row.hybrid, 0.05));
    HybridChoice const choice{.split = 1.32, .epochs = row.epochs_half, .epochs_more = row.epochs};
    CHECK(near(choice.gain(), row.gain, 5e-4));
    CHECK(near(choice.gain(), hybrid / plain - 1, 1e-12));
    CHECK(choice.hybrid_wins() == (row.devices >= 64));
  }
}

// In [low, high).
double draw(std::mt19937& random, double low, double high) {
  return low + (high - low) * (static_cast<double>(random()) / 4294967296.0);
}

TEST_CASE("a gain exactly where the condition holds and where C is smaller") {
  std::mt19937 random{7};
  int wins = 0;
  int const trials = 20000;
  for (int trial = 0; trial < trials; ++trial) {
    int const n = 1 + static_cast<int>(random() % 64);
    int const m = 2 + static_cast<int>(random() % 7);
    double const split = draw(random, 0.5, m);
    double const step = draw(random, 0.01, 10);
    double const step_n = step * draw(random, 1, 2);
    double const step_mn = step_n * draw(random, 1, 2);
    double const epochs = draw(random, 1, 100);
    double const epochs_n = epochs * draw(random, 1, 2);
    double const epochs_mn = epochs_n * draw(random, 1, 2);
    HybridChoice const choice{.split = split,
                              .devices = m,
                              .epochs = epochs_n,
                              .epochs_more = epochs_mn,
                              .efficiency = scaling_efficiency(step, step_n),
                              .efficiency_more = scaling_efficiency(step, step_mn)};
    double const batch = 64;
    double const samples = 1e6;
    ConvergenceTime const one{step, samples / batch, epochs};
    ConvergenceTime const plain{step_mn, samples / (batch * n * m), epochs_mn};
    ConvergenceTime const hybrid{step_n / split, samples / (batch * n), epochs_n};
    REQUIRE(near(plain.seconds() / hybrid.seconds() - 1, choice.gain(), 1e-12 * m));
    double const plain_speedup =
        data_parallel_speedup({m * n, choice.efficiency_more, epochs_mn}, epochs);
    REQUIRE(near(one.seconds() / plain.seconds() / plain_speedup, 1, 1e-12));
    double const speedup = hybrid_speedup(split, {n, choice.efficiency, epochs_n}, epochs);
    REQUIRE(near(one.seconds() / hybrid.seconds() / speedup, 1, 1e-12));
    REQUIRE(choice.hybrid_wins() == (choice.gain() > 0));
    double const right = m * (choice.efficiency_more / choice.efficiency) * (epochs_n / epochs_mn);
    if (!near(split / right, 1, 1e-12)) {  // rounding decides there
      REQUIRE((choice.gain() > 0) == (split > right));
      REQUIRE((choice.gain() > 0) == (hybrid.seconds() < plain.seconds()));
    }
    wins += choice.hybrid_wins() ? 1 : 0;
  }
  CHECK(wins > trials / 10);
  CHECK(wins < trials - trials / 10);
}

TEST_CASE("on the boundary there is no gain and none wins") {
  std::mt19937 random{8};
  for (int trial = 0; trial < 1000; ++trial) {
    HybridChoice choice{.devices = 2 + static_cast<int>(random() % 7),
                        .epochs = draw(random, 1, 50),
                        .epochs_more = draw(random, 1, 50),
                        .efficiency = draw(random, 0.1, 1),
                        .efficiency_more = draw(random, 0.1, 1)};
    choice.split = choice.threshold();
    REQUIRE(choice.gain() == 0);
    REQUIRE(!choice.hybrid_wins());
    choice.split = std::nextafter(choice.split, 1e9);
    REQUIRE(choice.gain() > 0);
    REQUIRE(choice.hybrid_wins());
  }
}

TEST_CASE("what is not positive is refused") {
  CHECK_THROWS_WITH_AS(static_cast<void>(scaling_efficiency(0, 1)),
                       doctest::Contains("give both steps a positive time"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(split_speedup(1, -1)),
                       doctest::Contains("give both steps a positive time"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(data_parallel_speedup({.count = 0}, 1)),
                       doctest::Contains("give workers, efficiency and epochs"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(hybrid_speedup(0, {}, 1)),
                       doctest::Contains("give the speedup of a worker"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(HybridChoice{.epochs_more = 0}.gain()),
                       doctest::Contains("devices, epochs and efficiencies"), ContractError);
}

}  // namespace convergence_time_test
