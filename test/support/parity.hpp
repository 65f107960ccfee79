// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that a strategy trains a network as another does: the first gradients in fp32, five steps
/// in double, or bit for bit.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {

using Double = BasicHost<Portable, Fp64>;

inline constexpr int largest_batch = 13;  // a multiple of no number of ranks but 1

inline TrainerOptions parity_options() {
  return {.batch = largest_batch,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 1e-3F},
          .clip_norm = 2.0,
          .seed = 7,
          .threads_per_device = 1};
}

/// Step @p step on a batch of its own: of several sizes, as at the end of an epoch.
template <class Trainer>
StepResult parity_step(Trainer& trainer, int step) {
  static constexpr int sizes[] = {largest_batch, 12, 8, largest_batch, 9};
  using T = typename Trainer::T;
  Samples<T> const data{Trainer::input, Trainer::output[0], sizes[step % 5],
                        static_cast<std::uint64_t>(step)};
  return trainer.step(data.x, data.y);
}

enum class Alike {
  gradients,  ///< of the first step in fp32: each a sum of at most 64 products a sample (the
              ///< pixels), in two orders; off by eps times their number, relative to the largest
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
    CHECK(first_difference(replica, many.replicas[0]) == "");  // replicas: the same bits
  }
}

template <class Net, class One, class Many, class Backend>
void check_alike(Alike how, TrainerOptions const& single = parity_options(),
                 TrainerOptions const& several = parity_options()) {
  Watchdog const watchdog{"steps that are alike"};
  Trainer<Net, One, Backend> one{single};
  Trainer<Net, Many, Backend> many{several};
  check_alike(FirstSteps<typename Backend::Master>{one, how},
              FirstSteps<typename Backend::Master>{many, how}, how);
}

/// Bits after five steps in fp32 of all that a trainer has: losses, norms, parameters, states.
struct Run {
  std::vector<double> numbers{};
  std::vector<std::vector<float>> values{};

  friend bool operator==(Run const&, Run const&) = default;
};

template <class S, class Backend = Host>
Run five_steps(TrainerOptions const& options) {
  Watchdog const watchdog{"five steps in fp32"};
  Trainer<TinyNet, S, Backend> trainer{options};
  Run run;
  for (int s = 0; s < 5; ++s) {
    StepResult const r = parity_step(trainer, s);
    run.numbers.insert(run.numbers.end(), {r.loss, r.metric, r.gradient_norm});
  }
  for (NamedParameter<float> const& p : trainer.parameters()) {
    run.values.emplace_back(p.value.begin(), p.value.end());
    for (std::span<float const> const state : p.states) {
      run.values.emplace_back(state.begin(), state.end());
    }
  }
  return run;
}

inline TrainerOptions unclipped(Optimizer const& optimizer) {
  TrainerOptions options = parity_options();
  options.clip_norm = 0.0;
  options.optimizer = optimizer;
  return options;
}

}  // namespace tandem::test
