// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a network cut over several GPUs must compute: the bits of one GPU.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <support/watchdog.hpp>

#include "support.hpp"

namespace tandem::test {

/// Steps, recorded and replayed where that is possible, with evaluations in between; then
/// predictions. The last batch of these two leaves microbatches without a sample.
template <class Trainer>
std::vector<double> stages_bits(TrainerOptions const& options) {
  Watchdog const watchdog{"a network in stages"};
  Trainer trainer{options};
  auto const data = dataset(Trainer::input, 5, largest_batch + 2, 3);
  std::vector<double> numbers;
  for (int round = 0; round < 3; ++round) {
    std::vector<double> const bits = engine_bits(trainer, 4);
    numbers.insert(numbers.end(), bits.begin(), bits.end());
    Evaluation const evaluation = trainer.evaluate(data);
    numbers.insert(numbers.end(), {evaluation.loss, evaluation.accuracy});
  }
  auto const outputs = trainer.predict(data);
  numbers.insert(numbers.end(), outputs.begin(), outputs.end());
  return numbers;
}

/// Of one GPU, with the same four microbatches.
inline std::vector<double> const& bits_of_one() {
  static std::vector<double> const bits =
      stages_bits<OnGpu<SingleDevice<Microbatches<4>, Reproducible<>>>>(engine_options());
  return bits;
}

}  // namespace tandem::test
