// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that an asynchronous pipeline, or two models that are trained at once, train a DeepNet by
/// their equation, bit for bit: against references in one thread.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <type_traits>

#include <asynchronous_reference.hpp>
#include <averaging_reference.hpp>
#include <deep_network.hpp>
#include <parity.hpp>
#include <stage_model.hpp>

namespace tandem::test {

using Plain = BasicHost<Portable>;

/// Momentum, weight decay, groups, and another learning rate in every step.
inline TrainerOptions ten_steps_options() {
  TrainerOptions options = parity_options();
  options.clip_norm = 0.0;
  options.groups = {{"*.bias", 0.5F, 0.0F}, {"10.bias", 1.0F, std::nullopt, true}};
  options.schedule = Schedule{Cosine{.steps = 12, .final = 0.1}, 3};
  return options;
}

inline TrainerOptions with_adam() {
  TrainerOptions options = ten_steps_options();
  options.optimizer = Adam{.learning_rate = 0.01F, .weight_decay = 1e-3F};
  return options;
}

/// The batch of step @p step, whose size is one of @p sizes in turns.
template <class T>
Samples<T> sized_batch(int step, std::initializer_list<int> sizes) {
  auto const s = static_cast<std::size_t>(step) % sizes.size();
  return {Image<3, 8, 8>::shape, 5, sizes.begin()[s], static_cast<std::uint64_t>(step)};
}

/// The batch of step @p step: of several sizes, down to one sample for each microbatch.
inline Samples<float> asynchronous_batch_of(int step, int microbatches) {
  return sized_batch<float>(step, {largest_batch, 12, 8, largest_batch, 9, microbatches});
}

/// A synchronous pipeline that is cut as S is; what is not cut at all has the bits of any.
template <class S>
using CutOf = std::conditional_t<S::devices == 2, InTwo<GPipe, 1>, InFour<GPipe, 1>>;

/// @param drained  after so many steps, the pipeline is emptied; 0: not before the end
template <class Equation, class S, class Cut = CutOf<S>>
void check_ten_steps(TrainerOptions const& options = ten_steps_options(), int drained = 0) {
  Watchdog const watchdog{"ten steps of an asynchronous pipeline"};
  Trainer<DeepNet, S, Plain> trainer{options};
  int const microbatches = trainer.workers().batching().microbatches;
  AsynchronousReference<float, Equation> reference{
      stages_of<DeepNet, Cut, Plain>(largest_batch, options.seed), graph<DeepNet>.parameters,
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

/// Ten steps with the bits of the reference: losses, and both models in every replica after each.
template <class S>
void check_two_models(TrainerOptions const& options = ten_steps_options()) {
  Watchdog const watchdog{"ten steps of two models"};
  using Checked = Trainer<DeepNet, S, Plain>;
  using Whole = typename Checked::ProgramType;
  Checked trainer{options};
  AveragingReference<float> reference{
      stages_of<DeepNet, SingleDevice<>, Plain>(largest_batch, options.seed),
      graph<DeepNet>.parameters, options, Whole::batching, Whole::averaging};
  for (int s = 0; s < 10; ++s) {
    INFO("step " << s);
    Samples<float> const data = sized_batch<float>(s, {largest_batch, 12, 8, 11, 9});
    double const loss = reference.step(data.x, data.y);
    CHECK(trainer.step(data.x, data.y).loss == loss);
    CHECK(std::isfinite(loss));
    for (int r = 0; r < Whole::batching.replicas; ++r) {
      for (int const copy : {0, 1}) {
        INFO("replica " << r << ", model " << copy);
        CHECK(first_difference(trainer.parameters(r, copy), reference.parameters(copy)) == "");
      }
    }
  }
}

}  // namespace tandem::test
