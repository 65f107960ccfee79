// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that devices which share layers train as one device does: after three steps on every
/// rank, in double or within a bound; that their files and what they write are one device's; and
/// that they have the memory that is said.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>

namespace tandem::test {

template <class Trainer>
constexpr bool has_words = std::is_same_v<typename Trainer::In, std::int32_t>;

/// Of images or of words.
/// @param beyond  stands behind the ends of sequences
template <class Trainer>
StepResult shared_step(Trainer& trainer, int step, std::int32_t beyond = 0) {
  if constexpr (has_words<Trainer>) {
    return gpt_step(trainer, step, beyond);
  } else {
    return parity_step(trainer, step);
  }
}
template <class Trainer>
TrainerOptions shared_options() {
  return has_words<Trainer> ? gpt_options() : parity_options();
}

/// Three steps.
template <class Net, class S, class Backend = Double>
struct TrainedShared {
  Trainer<Net, S, Backend> trainer{shared_options<Trainer<Net, S, Backend>>()};
  std::vector<StepResult> results{};

  explicit TrainedShared(std::int32_t beyond = 0) {
    Watchdog const watchdog{"three steps of shared layers"};
    for (int s = 0; s < 3; ++s) {
      results.push_back(shared_step(trainer, s, beyond));
    }
  }
};

template <class Net, class S, class Backend>
TrainedShared<Net, S, Backend> const& trained_once() {
  static TrainedShared<Net, S, Backend> const once;
  return once;
}

/// @param bound      of losses and norms, and relative of parameters
/// @param gradients  are compared, too
template <class T>
void check_alike(std::vector<StepResult> const& one, std::vector<NamedParameter<T>> const& wanted,
                 std::vector<StepResult> const& many,
                 std::vector<std::vector<NamedParameter<T>>> const& ranks, double bound,
                 bool gradients) {
  for (std::size_t s = 0; s < one.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(one[s].loss - many[s].loss) <= bound);
    CHECK(std::fabs(one[s].gradient_norm - many[s].gradient_norm) <= bound);
    CHECK(one[s].weight == many[s].weight);
    if (bound <= 1e-12) {
      CHECK(one[s].metric == many[s].metric);
    }
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Difference const values = difference(ranks[rank], wanted, Part::value);
    INFO("rank " << rank << ": " << values.name << " is off by " << values.error);
    CHECK(values.error <= bound);
    if (gradients) {
      Difference const off = difference(ranks[rank], wanted, Part::gradient);
      INFO("gradient of " << off.name << " is off by " << off.error);
      CHECK(off.error <= bound);
    }
  }
}

/// What S is compared with: one device, or replicas of whole networks, with its microbatches.
template <class S>
using Unshared =
    std::conditional_t<(S::batching.replicas > 1),
                       DataParallel<S::batching.replicas, Microbatches<S::batching.microbatches>>,
                       SingleDevice<Microbatches<S::batching.all_microbatches()>>>;

template <class Net, class S, class Backend = Double, class One = Unshared<S>>
void check_shared(double bound = 1e-12, bool gradients = true) {
  auto const& one = trained_once<Net, One, Backend>();
  TrainedShared<Net, S, Backend> const many{5};
  std::vector<std::vector<NamedParameter<typename Backend::Master>>> lines;
  for (int line = 0; line < S::ranks / S::devices; ++line) {
    lines.push_back(many.trainer.parameters(line));
  }
  check_alike(one.results, one.trainer.parameters(), many.results, lines, bound, gradients);
}

/// All ranks have the same bits of what is whole, and each run has them.
template <class Net, class S>
void check_same_bits_on_ranks() {
  TrainedShared<Net, S> const first;
  TrainedShared<Net, S> const again;
  auto const bits = first.trainer.parameters();
  for (int rank = 0; rank < S::ranks; ++rank) {
    CHECK(first_difference(again.trainer.parameters(rank), bits) == "");
  }
}

/// Initial values and the file are those of one device, and a checkpoint goes on under another
/// number of devices, states and all.
template <class Net, class Few, class Many>
void check_files() {
  Watchdog const watchdog{"a checkpoint of slices"};
  TemporaryFolder const folder;
  using OnMany = Trainer<Net, Many, Double>;
  TrainerOptions const options = shared_options<OnMany>();
  Trainer<Net, Unshared<Many>, Double> one{options};
  Trainer<Net, Few, Double> few{options};
  OnMany many{options};
  CHECK(first_difference(many.parameters(Many::ranks - 1), one.parameters()) == "");
  one.save(folder.file("one"));
  many.save(folder.file("many"));
  CHECK(content(folder.file("many")) == content(folder.file("one")));
  shared_step(many, 0);
  many.save(folder.file("later"));
  one.load(many.save_in(folder.file("steps")));
  few.load(folder.file("later"));
  CHECK(first_difference(one.parameters(), many.parameters(Many::ranks - 1)) == "");
  CHECK(first_difference(few.parameters(1), many.parameters()) == "");
  double const loss = shared_step(many, 1).loss;
  CHECK(std::fabs(shared_step(few, 1).loss - loss) <= 1e-12);
  CHECK(std::fabs(shared_step(one, 1).loss - loss) <= 1e-12);
}

/// What they write is what one device writes.
template <class Net, class S>
void check_generates() {
  TrainedShared<Net, Unshared<S>> one;
  TrainedShared<Net, S> many;
  std::vector<std::int32_t> const prompt{1, 5, 2};
  GenerateOptions const greedy{.tokens = 3, .temperature = 0.0F};
  CHECK(many.trainer.generate(prompt, greedy) == one.trainer.generate(prompt, greedy));
}

/// A rank has what fits<> counts, and no more.
template <class Net, class S>
void check_memory(int rank) {
  using On = Trainer<Net, S, Double>;
  constexpr bool reads = has_words<On>;
  constexpr DeviceMemory most =
      device_memory<Net, S, std::conditional_t<reads, AdamW, Sgd>, Fp64>(reads ? 9 : 13, 0);
  On const trainer{shared_options<On>()};
  MemoryReport const own = trainer.memory(rank);
  CHECK(own.parameters == most.parameters);
  CHECK(own.gradients == most.gradients);
  CHECK(own.optimizer_state == most.optimizer_state);
  CHECK(own.kept + own.recomputed + own.transient <=
        most.kept + most.recomputed + most.passing + most.activation_gradients);
}

}  // namespace tandem::test
