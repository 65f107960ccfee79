// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Feed: how the data and the state of a step reach a device, and how its results come back.

#include <cstdint>

#include <tandem/engine/microbatches.hpp>
#include <tandem/engine/state.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

/// What a Feed must have room for.
struct FeedSizes {
  std::int64_t samples = 0;  ///< of the largest shard
  std::int64_t targets_per_sample = 1;
};

/// The primary template is for devices that read the caller's memory: nothing is copied, and a step
/// is over when its last action is.
template <class Program, class Backend, class Target>
class Feed {
 public:
  using T = typename Backend::Scalar;
  using Batch = StepBatch<typename Backend::Master, Target>;
  using Device = typename Backend::Device;
  static constexpr std::int64_t inputs = Program::graph.node[0].out.elements();
  static constexpr std::int64_t outputs = Program::graph.output().out.elements();
  /// Steps that may be queued before the result of the first is collected.
  static constexpr int steps_in_flight = 1;

  Feed(Device& /*device*/, FeedSizes const& sizes) : targets_{sizes.targets_per_sample} {}

  /// Begins a step. @p batch is the global one, of which the rank has @p own.
  template <class Wait>
  void begin(Device& /*device*/, StepState const& state, Batch const& batch,
             RankMicrobatches const& /*own*/, Wait const& /*wait*/) {
    state_ = state;
    batch_ = batch;
    result_ = {};
  }

  /// In the device's memory.
  [[nodiscard]] StepState const* state() const { return &state_; }
  [[nodiscard]] StepResult* result() { return &result_; }

  /// What is queued first in every step.
  void load(Device& /*device*/, RankMicrobatches const& /*own*/) {}

  /// A microbatch's samples and targets, in the device's memory and in the backend's layout.
  [[nodiscard]] T const* input(Microbatch const& m) const { return batch_.x + m.first * inputs; }
  [[nodiscard]] Target const* targets(Microbatch const& m) const {
    return batch_.targets + m.first * targets_;
  }

  /// Gives the caller a microbatch's outputs.
  void store(Device& device, T const* y, Microbatch const& m) {
    Verbs<Backend>::copy(device, y, batch_.outputs + m.first * outputs, m.size * outputs);
  }

  /// Ends a step that begin() began; all of it has been queued.
  void end(Device& /*device*/) {}

  /// Steps that have been queued and not collected.
  [[nodiscard]] static constexpr int waiting() { return 0; }

  /// The result of the oldest step that has not been collected.
  template <class Wait>
  StepResult collect(Device& /*device*/, Wait const& /*wait*/) {
    return result_;
  }

  /// Bytes of the device's memory that this has.
  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }

 private:
  std::int64_t targets_;
  StepState state_{};
  Batch batch_{};
  StepResult result_{};
};

}  // namespace tandem
