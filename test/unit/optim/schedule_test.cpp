// SPDX-License-Identifier: Apache-2.0

#include <tandem/optim/schedule.hpp>

#include <doctest/doctest.h>

#include <cmath>
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

TEST_CASE("a schedule of no steps is an error") {
  CHECK(test::contains(test::message<ContractError>(
                           [] { static_cast<void>(Schedule{StepDecay{.every = 0}}.factor(0)); }),
                       "StepDecay: `every` must be 1 or more"));
  CHECK(test::contains(test::message<ContractError>(
                           [] { static_cast<void>(Schedule{Cosine{.steps = 0}}.factor(0)); }),
                       "Cosine: `steps` must be 1 or more"));
}

}  // namespace schedule_test
}  // namespace tandem
