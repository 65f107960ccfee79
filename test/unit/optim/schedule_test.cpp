// SPDX-License-Identifier: Apache-2.0

#include <tandem/optim/schedule.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include <support/temporary_folder.hpp>

namespace tandem {
namespace schedule_test {

TEST_CASE("a constant schedule, with and without warm-up") {
  CHECK(Schedule{}.factor(0) == 1.0);
  CHECK(Schedule{}.factor(1'000'000) == 1.0);
  Schedule const warm{Constant{}, 4};
  double const wanted[] = {0.25, 0.5, 0.75, 1.0, 1.0, 1.0};
  for (int step = 0; step < 6; ++step) {
    CHECK(warm.factor(step) == wanted[step]);
  }
}

TEST_CASE("StepDecay multiplies every so many steps, counted from the end of the warm-up") {
  Schedule const plain{StepDecay{.every = 3, .factor = 0.5}};
  Schedule const warm{StepDecay{.every = 3, .factor = 0.5}, 2};
  for (int step = 0; step < 20; ++step) {
    double wanted = 1.0;
    for (int s = 3; s <= step; s += 3) {
      wanted *= 0.5;
    }
    CHECK(plain.factor(step) == wanted);
    CHECK(warm.factor(step + 2) == wanted);
  }
  CHECK(warm.factor(0) == 0.5);
}

TEST_CASE("Cosine goes from 1 to its end in so many steps and stays there") {
  Schedule const schedule{Cosine{.steps = 8, .final = 0.1}, 1};
  CHECK(schedule.factor(0) == 1.0);
  CHECK(schedule.factor(1) == 1.0);
  for (int step = 0; step <= 8; ++step) {
    double const wanted = 0.1 + 0.9 * std::pow(std::cos(std::acos(0.0) * step / 8), 2);
    CHECK(std::fabs(schedule.factor(step + 1) - wanted) <= 1e-15);
  }
  CHECK(std::fabs(schedule.factor(9) - 0.1) <= 1e-15);
  CHECK(schedule.factor(1000) == schedule.factor(9));
  CHECK(std::fabs(Schedule{Cosine{.steps = 2}}.factor(1) - 0.5) <= 1e-15);
}

TEST_CASE("Polynomial goes from 1 to its end by a power of what is left, and stays there") {
  Schedule const schedule{Polynomial{.steps = 5, .power = 2.0}, 1};
  double const wanted[] = {1.0, 0.64, 0.36, 0.16, 0.04, 0.0, 0.0};  // PyTorch's PolynomialLR
  for (int step = 0; step < 7; ++step) {
    CHECK(std::fabs(schedule.factor(step + 1) - wanted[step]) <= 1e-15);
  }
  CHECK(std::fabs(Schedule{Polynomial{.steps = 4, .final = 0.2}}.factor(1) - 0.8) <= 1e-15);
}

TEST_CASE("OneCycle is PyTorch's OneCycleLR") {
  double const ten[] = {0.04,           0.52,          1.0,
                        0.950484632013, 0.81174565395, 0.611262021936,
                        0.388741978064, 0.18825834605, 0.0495193679865,
                        4e-06,          4e-06};
  Schedule const schedule{OneCycle{.steps = 10}};
  for (int step = 0; step < 11; ++step) {
    CHECK(std::fabs(schedule.factor(step) - ten[step]) <= 1e-11);
  }
  double const three[] = {0.994415435451, 0.462637102667, 4e-06};  // it rises before the first step
  for (int step = 0; step < 3; ++step) {
    CHECK(std::fabs(Schedule{OneCycle{.steps = 3}}.factor(step) - three[step]) <= 1e-11);
  }
  CHECK(Schedule{OneCycle{.steps = 1}}.factor(0) == OneCycle{}.final);
  CHECK(Schedule{OneCycle{.steps = 2, .rise = 0.5}}.factor(0) == 1.0);
}

/// GNMT's learning rate at step t of all, as its WarmupMultiStepLR(warmup_steps=200,
/// remain_steps=0.666, decay_interval=None, decay_steps=4, decay_factor=0.5) says it.
double gnmt(std::int64_t t, std::int64_t all, std::int64_t remain) {
  std::int64_t const every = std::max<std::int64_t>((all - remain) / 4, 1);
  if (t <= 200) {
    return std::pow(std::exp(std::log(0.01) / 200.0), 200.0 - static_cast<double>(t));
  }
  double rate = 1.0;
  for (std::int64_t s = remain; s <= t && s < remain + 4 * every; s += every) {
    rate /= 2.0;
  }
  return rate;
}

TEST_CASE("an exponential warm-up and halvings are GNMT's schedule") {
  for (std::int64_t const all : {3000, 1001, 601}) {
    auto const remain = static_cast<std::int64_t>(0.666 * static_cast<double>(all));
    Schedule const schedule{Halvings{.begin = remain - 200, .every = (all - remain) / 4},
                            ExponentialWarmUp{.steps = 200}};
    double worst = 0.0;
    for (std::int64_t t = 0; t < all + 10; ++t) {
      double const wanted = gnmt(t, all, remain);
      worst = std::max(worst, std::fabs(schedule.factor(t) / wanted - 1.0));
    }
    CHECK(worst <= 1e-13);  // of 200 roundings of the product that theirs is
    CHECK(schedule.factor(all + 1000) == 0.0625);
  }
  CHECK(Schedule{Halvings{.begin = 2, .most = 0}}.factor(5) == 1.0);
  CHECK(std::fabs(Schedule{Constant{}, ExponentialWarmUp{}}.factor(0) - 0.01) <= 1e-17);
}

TEST_CASE("any function of the step is a schedule, after a warm-up, too") {
  double const base = 0.5;
  Schedule const schedule{[base](std::int64_t step) { return std::pow(base, step); }, 2};
  Schedule const copy = schedule;
  CHECK(copy.factor(0) == 0.5);
  CHECK(copy.factor(1) == 1.0);
  CHECK(copy.factor(2) == 1.0);
  CHECK(copy.factor(5) == 0.125);
  CHECK(Schedule{[](std::int64_t step) { return step < 3 ? 1 : 0; }}.factor(3) == 0.0);
}

TEST_CASE("a schedule of no steps is an error") {
  CHECK(test::contains(test::message<ContractError>(
                           [] { static_cast<void>(Schedule{StepDecay{.every = 0}}.factor(0)); }),
                       "StepDecay: `every` must be 1 or more"));
  CHECK(test::contains(test::message<ContractError>(
                           [] { static_cast<void>(Schedule{Cosine{.steps = 0}}.factor(0)); }),
                       "Cosine: `steps` must be 1 or more"));
  CHECK(test::contains(test::message<ContractError>(
                           [] { static_cast<void>(Schedule{Halvings{.every = 0}}.factor(0)); }),
                       "Halvings: `every` must be 1 or more"));
  CHECK(test::contains(test::message<ContractError>([] {
                         static_cast<void>(Schedule{Constant{}, ExponentialWarmUp{.start = 0.0}});
                       }),
                       "ExponentialWarmUp: `start` must be above 0 and at most 1"));
}

}  // namespace schedule_test
}  // namespace tandem
