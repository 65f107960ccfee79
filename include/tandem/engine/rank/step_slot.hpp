// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepSlot: what a rank has of one step that is at work: its data, its microbatches, its key.

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/rank/rank_options.hpp>
#include <tandem/engine/rank/rank_parts.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/engine/step/microbatches.hpp>
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
  bool more = false;                   ///< passes consist of more than inputs and ops
  bool touched = false;                ///< it may have changed parameters or optimizer states
  ScaledLoss const* scaled = nullptr;  ///< of training steps, in the device's memory; null: not
  StepState const* state = nullptr;    ///< in the device's memory, as the next
  StepResult* result = nullptr;
};

/// A rank in lockstep with the others has one, one of an asynchronous pipeline as many as there are
/// steps that have microbatches there at once.
/// @tparam PartsType  RankParts
/// @tparam BatchType  StepBatch
template <class PartsType, class BatchType>
struct StepSlot : SlotState {
  using Parts = PartsType;
  using Batch = BatchType;
  using Target = typename Parts::Target;
  using FeedType = Feed<typename Parts::Backend, Batch>;
  using PassType = typename Parts::PassType;

  TANDEM_COLD StepSlot(Parts& parts, RankOptions const& options)
      : SlotState{.microbatches = parts.microbatches(options),
                  .groups_clip = clips_apart(options.groups),
                  .weighs_targets = parts.program.criterion.weight != nullptr},
        program{parts.program},
        feed{parts.device,
             {.tables = program.tables,
              .samples = parts.samples_of(options),
              .targets = program.criterion.targets}} {
    state = feed.state();
    result = feed.result();
    passes_.reserve(static_cast<std::size_t>(microbatches.passes()));
  }

  /// Begins a step on the rank's samples of @p all.
  void begin(Parts& parts, StepState const& given, Batch const& all, bool training,
             auto const& wait) {
    Batch const batch = parts.slices ? parts.slices->given(all, limit()) : all;
    bool const has_source = batch.position <= 0 || !program.tables.reads_two;
    Times const time{{has_source ? rows_of(0, batch.time) : 0, rows_of(1, batch.second.time)}};
    more = parts.more || batch.position >= 0;
    key = {.samples = batch.size,
           .time = time,
           .lengths = batch.lengths != nullptr,
           .second_lengths = batch.second.lengths != nullptr,
           .position = batch.position,
           .training = training,
           .targets = batch.targets != nullptr,
           .outputs = batch.outputs != nullptr,
           .exchanges = training && averaging().takes_place(given.step),
           .clips = training && (groups_clip || given.clip_norm > 0.0 || scaled != nullptr)};
    touched = training && FeedType::steps_in_flight > 1;  // what is queued is not looked at
    microbatches.split(batch.size, time);
    feed.begin(parts.device, weighed(given, batch), batch, microbatches, wait);
  }
  /// What is queued first. From now on the step has passes.
  void load(Parts& parts) {
    feed.load(parts.device, microbatches);
    if (PassKey const now = pass_key(); passes_.empty() || now != passes_key_) {
      passes_key_ = now;
      passes_.clear();
      for (int m = 0; m < microbatches.passes(); ++m) {
        PassType const pass = make_pass(parts, microbatches[m]);
        passes_.push_back({microbatches[m], pass, pass.on_clock(output_clock()),
                           1.0 / samples_of(microbatches[m])});
      }
    }
  }

  /// A microbatch, and its pass.
  struct MicrobatchPass {
    Microbatch own;
    PassType pass;       ///< at any stage
    PassType at_output;  ///< as the network's output sees it: with the time of its own clock
    double mean;         ///< one over the samples of which its loss is one
  };
  [[nodiscard]] MicrobatchPass const& at(int m) const {
    return passes_[static_cast<std::size_t>(m)];
  }

  /// What the gradient of a sample's loss is multiplied by, as far as the host knows it.
  [[nodiscard]] double loss_scale(MicrobatchPass const& at) const {
    if constexpr (host_knows_scale) {
      return scaled != nullptr ? at.mean * double{scaled->now.scale} : at.mean;
    } else {
      return at.mean;
    }
  }

  /// Over how many samples the loss of microbatch @p own is a mean: those of its model.
  [[nodiscard]] int samples_of(Microbatch const& own) const {
    return averaging().keeps_two() ? microbatches.total_of_copy(own) : key.samples;
  }

  RankProgram<typename Parts::Backend, Target> const& program;
  FeedType feed;

 private:
  // Where a device works behind the host's back, the host does not know the last step's verdict.
  static constexpr bool host_knows_scale = FeedType::steps_in_flight == 1;

  [[nodiscard]] int output_clock() const { return result_node().out.clock; }

  // What the passes of a step depend on: its key, and where the first one's data are.
  struct PassKey {
    StepKey key{};
    std::array<void const*, 5> data{};

    friend bool operator==(PassKey const&, PassKey const&) = default;
  };
  [[nodiscard]] PassKey pass_key() const {
    Microbatch const& first = microbatches[0];
    PassKey all{key, {feed.lengths(first), feed.second_lengths(first)}};
    if constexpr (requires { feed.coverage(first); }) {
      all.data[2] = feed.coverage(first);
    }
    if (program.tables.has_result && result_node().criterion) {
      all.data[3] = key.targets ? feed.targets(first) : nullptr;
      all.data[4] = feed.scores(first);
    }
    return all;
  }

  [[nodiscard]] PassType make_pass(Parts& parts, Microbatch const& own) const {
    PassType pass{
        .device = parts.device,
        .batch = own.size,
        .first_sample = own.first,
        .share = static_cast<double>(own.size) / samples_of(own),
        .state = state,
        .training = key.training,
        .accumulate = own.adds,
        .time = own.time.of[0],
        .lengths = feed.lengths(own),
        .sequence = {.position = own.position >= 0 ? own.position : key.position,
                     .rows_in_all =
                         own.position >= 0 ? own.time.of[0] * parts.plan.batching.chunks : 0},
        .other_clock = {own.time.of[1], feed.second_lengths(own)}};
    if constexpr (requires { feed.coverage(own); }) {
      pass.sequence.coverage = feed.coverage(own);
    }
    if (program.tables.has_result) {
      set_criterion(pass, own);
    }
    return pass;
  }
  // What the last layer needs where it is a criterion, and the loss.
  void set_criterion(PassType& pass, Microbatch const& own) const {
    bool const is_scaled = key.training && scaled != nullptr;
    if (weighs_targets) {
      int const copy = microbatches.copy_of(own);
      pass.criterion.row_scale = is_scaled ? &scaled->row_scale[copy] : &state->row_scale[copy];
    }
    if constexpr (!host_knows_scale) {
      pass.criterion.loss_scale = is_scaled ? &scaled->now.scale : nullptr;
    }
    if constexpr (std::is_same_v<Target, std::int32_t>) {  // as those of a criterion's rows are
      if (result_node().criterion) {
        pass.criterion.targets = key.targets ? feed.targets(own) : nullptr;
        pass.criterion.scores = feed.scores(own);
      }
    }
  }

  [[nodiscard]] Averaging const& averaging() const { return program.tables.averaging; }
  [[nodiscard]] Node const& result_node() const {
    return program.tables.network.node[program.tables.network.result];
  }
  [[nodiscard]] std::int64_t limit() const { return result_node().limit; }

  [[nodiscard]] int rows_of(int input, int given) const {
    Shape const shape = input_shape(program.tables.network, input);
    return given > 0 || !shape.timed ? given : shape[0];
  }

  // The state with what the loss is a mean of, in the global batch and in that of each model's
  // copy.
  [[nodiscard]] StepState weighed(StepState own, Batch const& batch) const {
    if (!weighs_targets || batch.targets == nullptr) {
      return own;
    }
    int const time = key.time[result_node().out];
    auto const weight = [&](int first, int size) {
      return program.criterion.weight(batch.targets, time, first, size);
    };
    double counts[2] = {};
    if (averaging().keeps_two()) {
      microbatches.each_of_all(
          [&](int copy, int first, int size) { counts[copy] += weight(first, size); });
      own.targets = counts[0] + counts[1];
    } else {  // in the order of the samples, which no strategy changes
      own.targets = counts[0] = counts[1] = weight(0, batch.size);
    }
    for (int copy = 0; copy < 2; ++copy) {
      own.row_scale[copy] = counts[copy] > 0.0 ? 1.0 / counts[copy] : 0.0;
    }
    own.counted = program.criterion.counted != nullptr
                      ? program.criterion.counted(batch.targets, time, 0, batch.size)
                      : own.targets;
    return own;
  }

  std::vector<MicrobatchPass> passes_;
  PassKey passes_key_{};
};

}  // namespace tandem
