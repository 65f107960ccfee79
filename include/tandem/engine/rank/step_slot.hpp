// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepSlot: what a rank has of one step that is at work: its data, its microbatches, its key.

#include <tandem/core/config.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/engine/step/source.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/optim/clip_sets.hpp>

namespace tandem {

/// What does not depend on the network.
struct SlotState {
  RankMicrobatches microbatches;
  StepKey key{};
  bool groups_clip = false;            ///< by norms of their own
  bool weighs_targets = false;         ///< the loss is a mean over something else than samples
  bool touched = false;                ///< it may have changed parameters or optimizer states
  ScaledLoss const* scaled = nullptr;  ///< of training steps, in the device's memory; null: not
  StepState const* state = nullptr;    ///< in the device's memory, as the next
  StepResult* result = nullptr;
};

/// A rank in lockstep with the others has one, one of an asynchronous pipeline as many as there are
/// steps that have microbatches there at once.
/// @tparam Parts  RankParts
template <class Parts>
struct StepSlot : SlotState {
  using Backend = typename Parts::Backend;
  using Whole = typename Parts::Whole;
  using Loss = typename Parts::Loss;
  using Target = typename Loss::Target;
  using Batch = StepBatchOf<typename Parts::Program, Backend, Loss>;
  using FeedType = Feed<typename Parts::Program, Backend, Target>;

  TANDEM_COLD StepSlot(Parts& parts, RankOptions const& options)
      : SlotState{.microbatches = parts.microbatches(options),
                  .groups_clip = clips_apart(options.groups),
                  .weighs_targets = weighs},
        feed{parts.device, parts.feed_sizes(options)} {
    state = feed.state();
    result = feed.result();
  }

  /// Begins a step on the rank's samples of @p all.
  void begin(Parts& parts, StepState const& given, Batch const& all, bool training,
             auto const& wait) {
    Batch const batch = parts.slices.given(all, network.output().limit);
    bool const has_source = batch.position <= 0 || !reads_two<Whole>();
    Times const time{{has_source ? rows_of(0, batch.time) : 0, rows_of(1, batch.second.time)}};
    key = {.samples = batch.size,
           .time = time,
           .lengths = batch.lengths != nullptr,
           .second_lengths = batch.second.lengths != nullptr,
           .position = batch.position,
           .training = training,
           .targets = batch.targets != nullptr,
           .outputs = batch.outputs != nullptr,
           .exchanges = training && Whole::averaging.takes_place(given.step),
           .clips = training && (groups_clip || given.clip_norm > 0.0 || scaled != nullptr)};
    touched = training && FeedType::steps_in_flight > 1;  // what is queued is not looked at
    microbatches.split(batch.size, time);
    feed.begin(parts.device, weighed(given, batch), batch, microbatches, wait);
  }
  /// What is queued first.
  void load(Parts& parts) { feed.load(parts.device, microbatches); }

  /// What the gradient of a sample's loss is multiplied by, as far as the host knows it.
  [[nodiscard]] double loss_scale(Microbatch const& own) const {
    double const mean = 1.0 / samples_of(own);
    if constexpr (host_knows_scale) {
      return scaled != nullptr ? mean * double{scaled->now.scale} : mean;
    } else {
      return mean;
    }
  }

  /// Over how many samples the loss of microbatch @p own is a mean: those of its model.
  [[nodiscard]] int samples_of(Microbatch const& own) const {
    return Whole::averaging.keeps_two() ? microbatches.total_of_copy(own) : key.samples;
  }

  [[nodiscard]] typename Parts::PassType pass(Parts& parts, Microbatch const& own) const {
    float* coverage = nullptr;
    if constexpr (requires { feed.coverage(own); }) {
      coverage = feed.coverage(own);
    }
    return {.device = parts.device,
            .batch = own.size,
            .first_sample = own.first,
            .share = static_cast<double>(own.size) / samples_of(own),
            .state = state,
            .training = key.training,
            .accumulate = own.adds,
            .time = own.time.of[0],
            .lengths = feed.lengths(own),
            .position = own.position >= 0 ? own.position : key.position,
            .rows_in_all = own.position >= 0 ? own.time.of[0] * parts.plan.batching.chunks : 0,
            .coverage = coverage,
            .other_time = own.time.of[1],
            .other_lengths = feed.second_lengths(own)};
  }
  /// The same where the network's result is made, for a criterion.
  [[nodiscard]] typename Parts::PassType criterion_pass(Parts& parts, Microbatch const& own) const {
    auto all = pass(parts, own);
    if constexpr (weighs) {
      int const copy = microbatches.copy_of(own);
      all.row_scale =
          key.training && scaled != nullptr ? &scaled->row_scale[copy] : &state->row_scale[copy];
    }
    if constexpr (!host_knows_scale) {
      all.loss_scale = key.training && scaled != nullptr ? &scaled->now.scale : nullptr;
    }
    if constexpr (is_criterion) {
      all.targets = key.targets ? feed.targets(own) : nullptr;
      all.scores = feed.scores(own);
    }
    return all;
  }

  FeedType feed;

 private:
  static constexpr bool weighs = requires(Target const* targets) {
    Loss::weight({targets, 0}, 0, 0);
  };
  static constexpr auto const& network = Whole::network;
  // Of a device that works behind the host's back, the host does not know the last step's verdict.
  static constexpr bool host_knows_scale = FeedType::steps_in_flight == 1;
  static constexpr bool is_criterion = network.output().criterion;

  static constexpr int rows_of(int input, int given) {
    Shape const shape = input_shape<Whole>(input);
    return given > 0 || !shape.timed ? given : shape[0];
  }

  // The state with what the loss is a mean of, in the global batch and in that of each model's
  // copy.
  [[nodiscard]] StepState weighed(StepState own, Batch const& batch) const {
    if constexpr (weighs) {
      if (batch.targets != nullptr) {
        int const time = key.time[network.output().out];
        auto const weight = [&](int first, int size) {
          return Loss::weight({batch.targets, time}, first, size);
        };
        double counts[2] = {};
        if constexpr (Whole::averaging.keeps_two()) {
          microbatches.each_of_all(
              [&](int copy, int first, int size) { counts[copy] += weight(first, size); });
          own.targets = counts[0] + counts[1];
        } else {  // in the order of the samples, which no strategy changes
          own.targets = counts[0] = counts[1] = weight(0, batch.size);
        }
        for (int copy = 0; copy < 2; ++copy) {
          own.row_scale[copy] = counts[copy] > 0.0 ? 1.0 / counts[copy] : 0.0;
        }
        own.counted = own.targets;
        if constexpr (requires { Loss::counted({batch.targets, time}, 0, 0); }) {
          own.counted = Loss::counted({batch.targets, time}, 0, batch.size);
        }
      }
    }
    return own;
  }
};

}  // namespace tandem
