// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepSlot: what a rank has of one step that is at work: its data, its microbatches, its key.

#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/engine/step/key.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

/// A rank in lockstep with the others has one, one of an asynchronous pipeline as many as there are
/// steps that have microbatches there at once.
/// @tparam Parts  RankParts
template <class Parts>
struct StepSlot {
  using Backend = typename Parts::Backend;
  using Whole = typename Parts::Whole;
  using Target = typename Parts::Loss::Target;
  using Batch = StepBatch<typename Backend::Master, Target>;
  using FeedType = Feed<typename Parts::Program, Backend, Target>;

  StepSlot(Parts& parts, RankOptions const& options)
      : feed{parts.device, parts.feed_sizes(options)}, microbatches{parts.microbatches(options)} {}

  /// Begins a step on the rank's samples of @p batch.
  void begin(Parts& parts, StepState const& state, Batch const& batch, bool training,
             auto const& wait) {
    key = {.samples = batch.size,
           .training = training,
           .targets = batch.targets != nullptr,
           .outputs = batch.outputs != nullptr,
           .exchanges = training && Whole::averaging.takes_place(state.step),
           .clips = state.clip_norm > 0.0};
    touched = training && FeedType::steps_in_flight > 1;  // what is queued is not looked at
    microbatches.split(batch.size);
    feed.begin(parts.device, state, batch, microbatches, wait);
  }
  /// What is queued first.
  void load(Parts& parts) { feed.load(parts.device, microbatches); }

  /// Over how many samples the loss of microbatch @p own is a mean: those of its model.
  [[nodiscard]] int samples_of(Microbatch const& own) const {
    return Whole::averaging.keeps_two() ? microbatches.total_of_copy(own) : key.samples;
  }

  [[nodiscard]] typename Parts::PassType pass(Parts& parts, Microbatch const& own) const {
    return {.device = parts.device,
            .batch = own.size,
            .first_sample = own.first,
            .share = static_cast<double>(own.size) / samples_of(own),
            .state = feed.state(),
            .training = key.training,
            .accumulate = own.adds};
  }

  FeedType feed;
  RankMicrobatches microbatches;
  StepKey key{};
  bool touched = false;  ///< it may have changed parameters or optimizer states
};

}  // namespace tandem
