// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Feed: how the data and the state of a step reach a device, and how its results come back.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/core/shape.hpp>
#include <tandem/engine/step/chunk_feed.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

/// What a Feed must have room for.
struct FeedSizes {
  std::int64_t samples = 0;         ///< of the largest shard
  Shape targets = vector_shape(1);  ///< of a sample
};

/// Whether arrays of @p shape are of another type, or in another order, than users have them.
template <class Backend>
constexpr bool converts(Shape shape) {
  bool const reorders = rewrites_of<Backend>().channels_last && shape.rank == 3 && shape[0] > 1 &&
                        shape[1] * shape[2] > 1;
  return reorders || !std::is_same_v<typename Backend::Scalar, typename Backend::Master>;
}

/// The primary template is for devices that read the caller's memory: nothing is copied unless the
/// backend stores it otherwise, and a step is over when its last action is.
template <class Program, class Backend, class Target>
class Feed {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using In = InputOf<typename Program::Program, Backend>;
  using Batch = StepBatch<P, Target, In>;
  using Device = typename Backend::Device;
  static constexpr Shape in = Program::Program::network.node[0].out;
  static constexpr Shape second = input_shape<typename Program::Program>(1);
  static constexpr Shape out = Program::Program::network.output().out;
  static constexpr std::int64_t inputs = in.elements();
  /// Whether the input are indices, which no backend stores otherwise.
  static constexpr bool takes_indices = Program::Program::network.node[0].limit > 0;
  /// Whether the caller's elements are of another type, or in another order, than the backend's.
  static constexpr bool converts_input =
      Program::has_input && !takes_indices && converts<Backend>(in);
  static constexpr bool converts_output = converts<Backend>(out);
  /// Steps that may be queued before the result of the first is collected.
  static constexpr int steps_in_flight = 1;

  /// Whether a pass has a chunk of each sequence, whose rows do not stand together in a batch.
  static constexpr bool in_chunks = Program::Program::batching.chunks > 1;

  Feed(Device& device, FeedSizes const& sizes)
      : targets_{sizes.targets},
        chunks_{sizes.samples, inputs, Program::Program::batching.chunks},
        samples_{device, converts_input
                             ? static_cast<std::size_t>(sizes.samples * inputs) * sizeof(T)
                             : 0} {}

  /// Begins a step. @p batch is the global one, of which the rank has @p own.
  template <class Wait>
  void begin(Device& /*device*/, StepState const& state, Batch const& batch,
             RankMicrobatches const& own, Wait const& /*wait*/) {
    state_ = state;
    batch_ = batch;
    first_ = own.begin();
    from_ = batch.from;
    times_ = own.time();
    time_ = times_[in];
    result_ = {};
  }

  /// In the device's memory.
  [[nodiscard]] StepState const* state() const { return &state_; }
  [[nodiscard]] StepResult* result() { return &result_; }

  /// Of the step at work.
  [[nodiscard]] Batch const& batch() const { return batch_; }

  /// What is queued first in every step.
  void load(Device& device, RankMicrobatches const& own) {
    if constexpr (in_chunks) {
      std::int64_t const at = (first_ - batch_.from) * time_;
      chunks_.load(own, batch_.x + at, batch_.targets != nullptr ? batch_.targets + at : nullptr,
                   batch_.lengths != nullptr ? batch_.lengths + first_ : nullptr);
    }
    if constexpr (converts_input) {
      Border<Backend>::load(device, static_cast<int>(own.end() - own.begin()), shape_of(in),
                            batch_.x + (first_ - batch_.from) * in.elements(time_),
                            samples_.template as<T>());
    }
  }

  /// A microbatch's samples and targets, in the device's memory and in the backend's layout.
  [[nodiscard]] T const* input(Microbatch const& m) const {
    if constexpr (in_chunks) {
      return reinterpret_cast<T const*>(chunks_.input(m));
    } else if constexpr (takes_indices) {
      return reinterpret_cast<T const*>(batch_.x + place(m) * in.elements(time_));
    } else if constexpr (converts_input) {
      return samples_.template as<T>() + (m.first - first_) * in.elements(time_);
    } else {
      return batch_.x + place(m) * in.elements(time_);
    }
  }
  /// The same of the second input, which are indices.
  [[nodiscard]] T const* second_input(Microbatch const& m) const {
    return reinterpret_cast<T const*>(batch_.second.x + place(m) * second.elements(times_[second]));
  }
  [[nodiscard]] Target const* targets(Microbatch const& m) const {
    if constexpr (in_chunks) {
      return chunks_.targets(m);
    } else {
      return batch_.targets + place(m) * targets_.elements(times_[out]);
    }
  }
  /// How many rows of each of its samples count; null: all.
  [[nodiscard]] std::int32_t const* lengths(Microbatch const& m) const {
    if constexpr (in_chunks) {
      return chunks_.lengths(m);
    } else {
      return batch_.lengths != nullptr ? batch_.lengths + m.first : nullptr;
    }
  }

  [[nodiscard]] std::int32_t const* second_lengths(Microbatch const& m) const {
    return batch_.second.lengths != nullptr ? batch_.second.lengths + m.first : nullptr;
  }

  /// Of each of its samples, for a criterion; null where they are not wanted.
  [[nodiscard]] float* scores(Microbatch const& m) const {
    std::int64_t const each = Program::Program::network.output().limit;
    return batch_.scores != nullptr ? batch_.scores + m.first * each : nullptr;
  }

  /// Of each of its samples and rows of the first input, for an attention to these.
  [[nodiscard]] float* coverage(Microbatch const& m) const {
    return batch_.coverage != nullptr ? batch_.coverage + m.first * in.elements() : nullptr;
  }

  /// Gives the caller a microbatch's outputs.
  void store(Device& device, T const* y, Microbatch const& m) {
    std::int64_t const outputs = out.elements(times_[out]);
    P* const to = batch_.outputs + m.first * outputs;
    if constexpr (converts_output) {
      Border<Backend>::store(device, m.size, shape_of(out), y, to);
    } else {
      Verbs<Backend>::copy(device, y, to, m.size * outputs);
    }
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
  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(samples_.bytes()) + chunks_.bytes();
  }

 private:
  // Of a microbatch's first sample, in what this process has.
  [[nodiscard]] std::int64_t place(Microbatch const& m) const { return m.first - from_; }

  // As this step has it.
  [[nodiscard]] Shape shape_of(Shape shape) const {
    if (shape.timed) {
      shape.extent[0] = times_[shape];
    }
    return shape;
  }

  using InChunks = std::conditional_t<in_chunks, ChunkFeed<Target>, NoChunkFeed>;

  Shape targets_;
  InChunks chunks_;
  typename Backend::Buffer samples_;
  std::int64_t first_ = 0;  // of the rank's samples in the global batch
  std::int64_t from_ = 0;   // the first sample of the global batch that this process has
  Times times_{};           // rows of the step's samples
  int time_ = 0;            // those of the first input
  StepState state_{};
  Batch batch_{};
  StepResult result_{};
};

}  // namespace tandem
