// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that a DeepNet on several devices trains as on one with the same microbatches, for many
/// schedules: the tables are imported, so one strategy type runs them all.

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <deep_network.hpp>
#include <parity.hpp>

namespace tandem::test {

enum class Alike {
  gradients,  ///< of the first step, within the bound of check_first_gradients()
  numbers,    ///< of five steps in double: losses, parameters, running statistics
  bits        ///< of five steps: losses, norms, parameters and states, in every replica
};

/// What a trainer's first steps gave, and its parameters behind them, of each replica.
template <class T>
struct FirstSteps {
  template <class Trainer>
  FirstSteps(Trainer& trainer, Alike how) {
    for (int s = 0; s < (how == Alike::gradients ? 1 : 5); ++s) {
      results.push_back(parity_step(trainer, s));
    }
    for (int r = 0; r < Trainer::ProgramType::batching.replicas; ++r) {
      replicas.push_back(trainer.parameters(r));
    }
  }
  std::vector<StepResult> results{};
  std::vector<std::vector<NamedParameter<T>>> replicas{};
};

template <class T>
void check_alike(FirstSteps<T> const& one, FirstSteps<T> const& many, Alike how) {
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    StepResult const& a = one.results[s];
    StepResult const& b = many.results[s];
    CHECK(a.metric == b.metric);
    if (how == Alike::numbers) {
      CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
      CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-12 * a.gradient_norm);
    } else {
      CHECK(a.loss == b.loss);
      CHECK((how == Alike::gradients || a.gradient_norm == b.gradient_norm));
    }
  }
  for (std::vector<NamedParameter<T>> const& replica : many.replicas) {
    if (how == Alike::bits) {
      CHECK(first_difference(replica, one.replicas[0]) == "");
      continue;
    }
    constexpr double bound = 2.0 * largest_batch * 64 * std::numeric_limits<float>::epsilon();
    bool const values = how == Alike::numbers;
    Difference const off =
        difference(replica, one.replicas[0], values ? Part::value : Part::gradient);
    INFO(off.name << " is off by " << off.error);
    CHECK(off.error <= (values ? 1e-12 : bound));
  }
}

/// Many is compared with one device, reproducible if it is.
template <class Many, class Backend>
void check_alike(Alike how, TrainerOptions const& single, TrainerOptions const& several) {
  using One =
      std::conditional_t<Many::batching.reproducible, SingleDevice<Microbatches<4>, Reproducible<>>,
                         SingleDevice<Microbatches<4>>>;
  Trainer<DeepNet, One, Backend> one{single};
  Trainer<DeepNet, Many, Backend> many{several};
  check_alike(FirstSteps<typename Backend::Scalar>{one, how},
              FirstSteps<typename Backend::Scalar>{many, how}, how);
}

/// @param schedules  of which each is run with each number of microbatches, @p counts, of a replica
template <class Many, class Backend = Host>
void check_tables(Alike how, std::initializer_list<std::string_view> schedules,
                  std::initializer_list<int> counts,
                  TrainerOptions const& options = parity_options()) {
  using Program = typename Trainer<DeepNet, Many, Backend>::ProgramType;
  for (std::string_view const schedule : schedules) {
    for (int const count : counts) {
      std::string const name = std::string{schedule} + ", " + std::to_string(count);
      INFO(name);
      Watchdog const watchdog{name.c_str()};
      TrainerOptions single = options;
      single.rows = make_schedule("sequential", 1, Program::batching.replicas * count);
      TrainerOptions several = options;
      several.rows =
          make_schedule(schedule, Program::devices, count, Program::map.parts() / Program::devices);
      check_alike<Many, Backend>(how, single, several);
    }
  }
}

}  // namespace tandem::test
