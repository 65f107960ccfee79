// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that a DeepNet on several devices trains as on one with the same microbatches, for many
/// schedules: the tables are imported, so one strategy type runs them all.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <deep_network.hpp>
#include <parity.hpp>

namespace tandem::test {

/// What a strategy is compared with; the imported rows have other microbatches.
template <class... Options>
using OneDevice = SingleDevice<Microbatches<4>, Options...>;

/// One step: the same losses, and gradients within the bound of check_first_gradients().
template <class One, class Many>
void compare_first_gradients(One& one, Many& many) {
  StepResult const a = parity_step(one, 0);
  StepResult const b = parity_step(many, 0);
  CHECK(a.loss == b.loss);
  CHECK(a.metric == b.metric);
  constexpr double bound = 2.0 * largest_batch * 64 * std::numeric_limits<float>::epsilon();
  Difference const off = difference(many.parameters(), one.parameters(), Part::gradient);
  INFO("gradient of " << off.name << " is off by " << off.error);
  CHECK(off.error <= bound);
}

/// In double the same after five steps of several sizes: losses, parameters, running statistics.
template <class One, class Many>
void compare_five_steps(One& one, Many& many) {
  for (int s = 0; s < 5; ++s) {
    StepResult const a = parity_step(one, s);
    StepResult const b = parity_step(many, s);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-12 * a.gradient_norm);
    CHECK(a.metric == b.metric);
  }
  Difference const off = difference(many.parameters(), one.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-12);
}

/// The same bits after five steps: losses, norms, parameters and states, in every replica.
template <class One, class Many>
void compare_bits(One& one, Many& many) {
  for (int s = 0; s < 5; ++s) {
    StepResult const a = parity_step(one, s);
    StepResult const b = parity_step(many, s);
    CHECK(a.loss == b.loss);
    CHECK(a.metric == b.metric);
    CHECK(a.gradient_norm == b.gradient_norm);
  }
  for (int r = 0; r < Many::ProgramType::batching.replicas; ++r) {
    CHECK(first_difference(many.parameters(r), one.parameters()) == "");
  }
}

/// compare(one, many) for each schedule and number of microbatches.
template <class One, class Many, class Backend, class Compare>
void for_tables(std::initializer_list<std::string_view> schedules,
                std::initializer_list<int> microbatches, TrainerOptions const& options,
                Compare const& compare) {
  using Program = typename Trainer<DeepNet, Many, Backend>::ProgramType;
  int const chunks = Program::map.parts() / Program::devices;
  for (std::string_view const schedule : schedules) {
    for (int const count : microbatches) {
      std::string const name = std::string{schedule} + ", " + std::to_string(count);
      INFO(name);
      Watchdog const watchdog{name.c_str()};
      TrainerOptions single = options;
      single.rows = make_schedule("sequential", 1, count);
      TrainerOptions several = options;
      several.rows = make_schedule(schedule, Program::devices, count, chunks);
      Trainer<DeepNet, One, Backend> one{single};
      Trainer<DeepNet, Many, Backend> many{several};
      compare(one, many);
    }
  }
}

}  // namespace tandem::test
