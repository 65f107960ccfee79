// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that a strategy trains a TinyNet as another does: the first gradients in fp32, five steps
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

/// In fp32 a gradient is a sum of at most 64 products a sample (the pixels), in two orders; each is
/// off by eps times their number, relative to the largest.
template <class One, class Many>
void check_first_gradients() {
  Watchdog const watchdog{"gradients of the first step"};
  Trainer<TinyNet, One, Host> one{parity_options()};
  Trainer<TinyNet, Many, Host> many{parity_options()};
  StepResult const a = parity_step(one, 0);
  StepResult const b = parity_step(many, 0);
  CHECK(a.loss == b.loss);  // the same microbatches, added in the same order
  CHECK(a.metric == b.metric);
  constexpr double bound = 2.0 * largest_batch * 64 * std::numeric_limits<float>::epsilon();
  Difference const off = difference(many.parameters(), one.parameters(), Part::gradient);
  INFO("gradient of " << off.name << " is off by " << off.error);
  CHECK(off.error <= bound);
}

/// In double the same after five steps: losses, parameters, running statistics, on every rank.
template <class One, class Many>
void check_five_steps() {
  Watchdog const watchdog{"five steps in double"};
  Trainer<TinyNet, One, Double> one{parity_options()};
  Trainer<TinyNet, Many, Double> many{parity_options()};
  for (int s = 0; s < 5; ++s) {
    StepResult const a = parity_step(one, s);
    StepResult const b = parity_step(many, s);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-12 * a.gradient_norm);
    CHECK(a.metric == b.metric);
  }
  for (int rank = 0; rank < Many::ranks; ++rank) {
    auto const replica = many.parameters(rank);
    Difference const off = difference(replica, one.parameters(), Part::value);
    INFO("rank " << rank << ": " << off.name << " is off by " << off.error);
    CHECK(off.error <= 1e-12);
    CHECK(first_difference(replica, many.parameters()) == "");  // replicas: the same bits
  }
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
