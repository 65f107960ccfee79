// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that devices which share layers train as one device does: after three steps on every
/// rank, in double or within a bound.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>

namespace tandem::test {

/// Three steps on images, in double.
template <class Net, class S>
struct TrainedImages {
  Trainer<Net, S, Double> trainer{parity_options()};
  std::vector<StepResult> results{};
  TrainedImages() {
    Watchdog const watchdog{"three steps of shared images"};
    for (int s = 0; s < 3; ++s) {
      results.push_back(parity_step(trainer, s));
    }
  }
};

/// @p one and @p many, which are TrainedImages or TrainedGpt, have the same results, and the same
/// parameters and gradients on each of @p ranks.
template <class One, class Many>
void check_trained_alike(One const& one, Many const& many, int ranks) {
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(one.results[s].loss - many.results[s].loss) <= 1e-12);
    CHECK(std::fabs(one.results[s].gradient_norm - many.results[s].gradient_norm) <= 1e-12);
    CHECK(one.results[s].metric == many.results[s].metric);
    CHECK(one.results[s].weight == many.results[s].weight);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (Part const part : {Part::value, Part::gradient}) {
      Difference const off =
          difference(many.trainer.parameters(rank), one.trainer.parameters(), part);
      INFO("rank " << rank << ": " << off.name << " is off by " << off.error);
      CHECK(off.error <= 1e-12);
    }
  }
}

/// S is compared with replicas of whole networks that have its microbatches.
/// @param bound  of losses and norms, and relative of parameters
template <class Net, class S, class Backend>
void check_three_steps(double bound) {
  using One = SingleDevice<Microbatches<S::batching.all_microbatches()>>;
  using Parted = DataParallel<S::batching.replicas, Microbatches<S::batching.microbatches>>;
  using Reference = std::conditional_t<(S::batching.replicas > 1), Parted, One>;
  Watchdog const watchdog{"three steps of shared layers"};
  Trainer<Net, Reference, Backend> one{parity_options()};
  Trainer<Net, S, Backend> many{parity_options()};
  for (int s = 0; s < 3; ++s) {
    StepResult const a = parity_step(one, s);
    StepResult const b = parity_step(many, s);
    INFO("step " << s);
    CHECK(std::fabs(a.loss - b.loss) <= bound);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= bound);
  }
  for (int rank = 0; rank < S::ranks / S::devices; ++rank) {
    Difference const off = difference(many.parameters(rank), one.parameters(), Part::value);
    INFO("rank " << rank << ": " << off.name << " is off by " << off.error);
    CHECK(off.error <= bound);
  }
}

}  // namespace tandem::test
