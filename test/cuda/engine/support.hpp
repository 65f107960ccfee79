// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Trainers of the tests' networks on a GPU, several ranks on one where there are several.

#include <cstdint>
#include <span>
#include <vector>

#include <tandem/cuda.cuh>

#include <compare.hpp>
#include <one_rank.hpp>
#include <tiny_network.hpp>

namespace tandem::test {

template <class S, class Precision = Fp32, class Net = TinyNet>
using OnGpu = Trainer<Net, S, BasicCuda<Portable, Precision>, SoftmaxCrossEntropy<>, Accuracy,
                      VirtualTransport>;

template <class S, class Precision = Fp32, class Net = TinyNet>
using OnHost = Trainer<Net, S, BasicHost<Portable, Precision>>;

inline constexpr int largest_batch = 13;  // a multiple of no number of ranks but 1

inline TrainerOptions engine_options() {
  return {.batch = largest_batch,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 1e-3F},
          .clip_norm = 2.0,
          .seed = 7,
          .threads_per_device = 1};
}

/// The same, recorded also where several ranks of one process talk through NCCL.
inline TrainerOptions recorded_options() {
  TrainerOptions options = engine_options();
  options.record = true;
  return options;
}

/// Step @p step on a batch of its own; sizes come again, so that recorded steps are replayed.
template <class Trainer>
StepResult engine_step(Trainer& trainer, int step) {
  static constexpr int sizes[] = {largest_batch, 12, largest_batch, largest_batch, 12, 9};
  using T = typename Trainer::T;
  Samples<T> const data{Trainer::input, static_cast<int>(Trainer::output.elements()),
                        sizes[step % 6], static_cast<std::uint64_t>(step)};
  return trainer.step(data.x, data.y);
}

/// All that @p steps steps compute and leave behind.
template <class Trainer>
std::vector<double> engine_bits(Trainer& trainer, int steps) {
  std::vector<double> numbers;
  for (int s = 0; s < steps; ++s) {
    StepResult const r = engine_step(trainer, s);
    numbers.insert(numbers.end(), {r.loss, r.metric, r.gradient_norm});
  }
  for (auto const& p : trainer.parameters()) {
    numbers.insert(numbers.end(), p.value.begin(), p.value.end());
    for (auto const state : p.states) {
      numbers.insert(numbers.end(), state.begin(), state.end());
    }
  }
  return numbers;
}

}  // namespace tandem::test
