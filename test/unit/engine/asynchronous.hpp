// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that an asynchronous pipeline trains a DeepNet by its equation, bit for bit.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <tandem/tandem.hpp>

#include <asynchronous_reference.hpp>
#include <compare.hpp>
#include <deep_network.hpp>
#include <stage_model.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {

using Plain = BasicHost<Portable>;

inline constexpr int asynchronous_batch = 13;  // a multiple of nothing

/// Momentum, weight decay, groups, and another learning rate in every step.
inline TrainerOptions asynchronous_options() {
  return {.batch = asynchronous_batch,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 1e-3F},
          .schedule = Schedule{Cosine{.steps = 12, .final = 0.1}, 3},
          .groups = {{"*.bias", 0.5F, 0.0F}, {"10.bias", 1.0F, std::nullopt, true}},
          .seed = 7,
          .threads_per_device = 1};
}

/// The batch of step @p step: of several sizes, down to one sample for each microbatch.
inline Samples<float> asynchronous_batch_of(int step, int microbatches) {
  int const sizes[] = {asynchronous_batch, 12, 8, asynchronous_batch, 9, microbatches};
  return {Image<3, 8, 8>::shape, 5, sizes[step % 6], static_cast<std::uint64_t>(step)};
}

/// A synchronous pipeline that is cut as S is; what is not cut at all has the bits of any.
template <class S>
using CutOf = std::conditional_t<S::devices == 2, InTwo<GPipe, 1>, InFour<GPipe, 1>>;

/// @param drained  after so many steps, the pipeline is emptied; 0: not before the end
template <class Equation, class S, class Cut = CutOf<S>>
void check_ten_steps(TrainerOptions const& options = asynchronous_options(), int drained = 0) {
  Watchdog const watchdog{"ten steps of an asynchronous pipeline"};
  Trainer<DeepNet, S, Plain> trainer{options};
  int const microbatches = trainer.workers().batching().microbatches;
  AsynchronousReference<float, Equation> reference{
      stages_of<DeepNet, Cut, Plain>(asynchronous_batch, options.seed), graph<DeepNet>.parameters,
      options, microbatches};
  for (int s = 0; s < 10; ++s) {
    INFO("step " << s);
    Samples<float> const data = asynchronous_batch_of(s, microbatches);
    double const loss = reference.step(data.x, data.y);
    CHECK(trainer.step(data.x, data.y).loss == loss);
    CHECK(std::isfinite(loss));
    if (s + 1 == drained) {
      reference.drain();
      CHECK(first_difference(trainer.parameters(), reference.parameters()) == "");
    }
  }
  CHECK(first_difference(trainer.parameters(), reference.parameters()) == "");
}

}  // namespace tandem::test
