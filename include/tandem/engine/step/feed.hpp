// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Feed: how the data and the state of a step reach a device, and how its results come back.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

/// Rows of (samples, time) indices, chunk by chunk of each microbatch: (chunk, sample, row). Where
/// chunks have more rows than there are, the last ones count for nothing. In the host's memory.
template <class Target>
class ChunkFeed {
 public:
  /// @param samples  of the rank, at most
  /// @param rows     of each, at most
  /// @param chunks   of each microbatch
  ChunkFeed(std::int64_t samples, std::int64_t rows, int chunks)
      : index_(static_cast<std::size_t>(samples * rows)),
        target_(static_cast<std::size_t>(samples * rows)),
        length_(static_cast<std::size_t>(samples * chunks)),
        chunks_{chunks} {}

  /// @param x        of the rank's first sample, then of the others; likewise the next two
  /// @param targets  may be null
  /// @param lengths  may be null
  void load(RankMicrobatches const& own, std::int32_t const* x, Target const* targets,
            std::int32_t const* lengths) {
    first_ = own.begin();
    int const time = own.time().of[0];
    int const each = own[0].time.of[0];  // of a chunk
    time_ = std::int64_t{each} * chunks_;
    has_lengths_ = lengths != nullptr || time < time_;
    for (int m = 0; m < own.passes(); ++m) {
      Microbatch const& part = own[m];
      int const rows = std::clamp(time - part.position, 0, each);
      for (int b = 0; b < part.size; ++b) {
        std::int64_t const sample = part.first - first_ + b;
        std::int64_t const from = sample * time + part.position;
        std::int64_t const to = part.place + std::int64_t{b} * each;
        fill(x, from, rows, each, 0, index_.data() + to);
        fill(targets, from, rows, each, -1, target_.data() + to);
        int const length = lengths != nullptr ? lengths[sample] : time;
        length_[length_place(part) + static_cast<std::size_t>(b)] =
            std::clamp(length - part.position, 0, each);
      }
    }
  }

  /// How many rows of the chunk count; null: all.
  [[nodiscard]] std::int32_t const* lengths(Microbatch const& m) const {
    return has_lengths_ ? length_.data() + length_place(m) : nullptr;
  }

  /// Of all that has been loaded, from the rank's first sample on: lengths (chunk, sample) of each
  /// microbatch; null: all rows count.
  [[nodiscard]] std::int32_t const* inputs() const { return index_.data(); }
  [[nodiscard]] Target const* targets() const { return target_.data(); }
  [[nodiscard]] std::int32_t const* lengths() const {
    return has_lengths_ ? length_.data() : nullptr;
  }
  /// Rows of a sample in all its chunks.
  [[nodiscard]] int time() const { return static_cast<int>(time_); }

  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>((index_.size() + length_.size()) * sizeof(std::int32_t) +
                                     target_.size() * sizeof(Target));
  }

 private:
  // From row @p from on @p rows rows, of @p each the others @p other; nothing of null.
  template <class E>
  static void fill(E const* all, std::int64_t from, int rows, int each, E other, E* to) {
    if (all != nullptr) {
      std::fill_n(std::copy_n(all + from, rows, to), each - rows, other);
    }
  }
  [[nodiscard]] std::size_t length_place(Microbatch const& m) const {
    return static_cast<std::size_t>((m.first - first_) * chunks_ + std::int64_t{m.size} * m.chunk);
  }

  std::vector<std::int32_t> index_;
  std::vector<Target> target_;
  std::vector<std::int32_t> length_;
  int chunks_;
  std::int64_t first_ = 0;
  std::int64_t time_ = 0;  // rows of a sample in all its chunks
  bool has_lengths_ = false;
};

/// What a Feed is made for.
struct FeedTask {
  DeviceTables const& tables;       ///< outlive it
  std::int64_t samples = 0;         ///< of the largest shard
  Shape targets = vector_shape(1);  ///< of a sample
};

/// Whether some arrays are of another type, or in another order, than users have them.
template <class Backend>
inline constexpr bool has_border =
    rewrites_of<Backend>().channels_last ||
    !std::is_same_v<typename Backend::Scalar, typename Backend::Master>;

/// Whether those of @p shape are.
template <class Backend>
constexpr bool converts(Shape shape) {
  bool const is_image = shape.rank == 3 && shape[0] > 1 && shape[1] * shape[2] > 1;
  return has_border<Backend> &&
         (is_image || !std::is_same_v<typename Backend::Scalar, typename Backend::Master>);
}

/// The primary template is for devices that read the caller's memory: nothing is copied unless the
/// backend stores it otherwise, and a step is over when its last action is.
/// @tparam BatchType  StepBatch
template <class Backend, class BatchType>
class Feed {
 public:
  using Batch = BatchType;
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using In = typename Batch::Input;
  using Target = typename Batch::TargetType;
  using Device = typename Backend::Device;
  /// Steps that may be queued before the result of the first is collected.
  static constexpr int steps_in_flight = 1;

  TANDEM_COLD Feed(Device& device, FeedTask const& task)
      : tables_{task.tables},
        targets_{task.targets},
        in_{input_shape(tables_.network, 0)},
        second_{input_shape(tables_.network, 1)},
        out_{tables_.network.node[tables_.network.result].out},
        in_chunks_{tables_.batching.chunks > 1},
        converts_input_{tables_.has_input && !takes_indices && converts<Backend>(in_)},
        converts_output_{converts<Backend>(out_)},
        chunks_{in_chunks_ ? task.samples : 0, in_.elements(), tables_.batching.chunks},
        samples_{device, converts_input_
                             ? static_cast<std::size_t>(task.samples * in_.elements()) * sizeof(T)
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
    time_ = times_[in_];
    input_each_ = in_.elements(time_);
    target_each_ = targets_.elements(times_[out_]);
    x_ = reinterpret_cast<Read const*>(of_rank(batch.x, input_each_));
    first_target_ = of_rank(batch.targets, target_each_);
    if (converts_input_) {
      x_ = samples_.template as<Read>();
    }
    if (in_chunks_) {
      x_ = reinterpret_cast<Read const*>(chunks_.inputs());
      first_target_ = chunks_.targets();
      input_each_ = target_each_ = 1;
    }
    result_ = {};
  }

  /// In the device's memory.
  [[nodiscard]] StepState const* state() const { return &state_; }
  [[nodiscard]] StepResult* result() { return &result_; }

  /// Of the step at work.
  [[nodiscard]] Batch const& batch() const { return batch_; }

  /// What is queued first in every step.
  void load(Device& device, RankMicrobatches const& own) {
    if constexpr (takes_indices) {
      if (in_chunks_) {
        chunks_.load(own, of_rank(batch_.x, time_), of_rank(batch_.targets, time_),
                     batch_.lengths != nullptr ? batch_.lengths + first_ : nullptr);
      }
    } else if constexpr (has_border<Backend>) {
      if (!converts_input_) {
        return;
      }
      Border<Backend>::load(device, static_cast<int>(own.end() - own.begin()), shape_of(in_),
                            of_rank(batch_.x, input_each_), samples_.template as<T>());
    }
  }

  /// A microbatch's samples and targets, in the device's memory and in the backend's layout.
  [[nodiscard]] T const* input(Microbatch const& m) const {
    return reinterpret_cast<T const*>(x_ + m.place * input_each_);
  }
  /// The same of the second input, which are indices.
  [[nodiscard]] T const* second_input(Microbatch const& m) const {
    return reinterpret_cast<T const*>(batch_.second.x +
                                      place(m) * second_.elements(times_[second_]));
  }
  [[nodiscard]] Target const* targets(Microbatch const& m) const {
    return first_target_ + m.place * target_each_;
  }
  /// How many rows of each of its samples count; null: all.
  [[nodiscard]] std::int32_t const* lengths(Microbatch const& m) const {
    if (in_chunks_) {
      return chunks_.lengths(m);
    }
    return batch_.lengths != nullptr ? batch_.lengths + m.first : nullptr;
  }

  [[nodiscard]] std::int32_t const* second_lengths(Microbatch const& m) const {
    return batch_.second.lengths != nullptr ? batch_.second.lengths + m.first : nullptr;
  }

  /// Of each of its samples, for a criterion; null where they are not wanted.
  [[nodiscard]] float* scores(Microbatch const& m) const {
    std::int64_t const each = tables_.network.node[tables_.network.result].limit;
    return batch_.scores != nullptr ? batch_.scores + m.first * each : nullptr;
  }

  /// Of each of its samples and rows of the first input, for an attention to these.
  [[nodiscard]] float* coverage(Microbatch const& m) const {
    return batch_.coverage != nullptr ? batch_.coverage + m.first * in_.elements() : nullptr;
  }

  /// Gives the caller a microbatch's outputs.
  void store(Device& device, T const* y, Microbatch const& m) {
    std::int64_t const outputs = out_.elements(times_[out_]);
    P* const to = batch_.outputs + m.first * outputs;
    if constexpr (has_border<Backend>) {
      if (converts_output_) {
        return Border<Backend>::store(device, m.size, shape_of(out_), y, to);
      }
    }
    if constexpr (std::is_same_v<T, P>) {
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

  // Where those of the rank's first sample begin, of which each has so many.
  template <class E>
  [[nodiscard]] E const* of_rank(E const* all, std::int64_t each) const {
    return all != nullptr ? all + (first_ - from_) * each : nullptr;
  }

  // As this step has it.
  [[nodiscard]] Shape shape_of(Shape shape) const {
    if (shape.timed) {
      shape.extent[0] = times_[shape];
    }
    return shape;
  }

  // No backend stores indices otherwise.
  static constexpr bool takes_indices = std::is_same_v<In, std::int32_t>;
  using Read = std::conditional_t<takes_indices, In, T>;  // by the first node's op

  DeviceTables const& tables_;
  Shape targets_;
  Shape in_;
  Shape second_;
  Shape out_;
  bool in_chunks_;        // of each sequence, whose rows do not stand together in a batch
  bool converts_input_;   // the caller's elements are of another type, or in another order
  bool converts_output_;  // likewise
  ChunkFeed<Target> chunks_;
  typename Backend::Buffer samples_;
  std::int64_t first_ = 0;        // of the rank's samples in the global batch
  std::int64_t from_ = 0;         // the first sample of the global batch that this process has
  Times times_{};                 // rows of the step's samples
  int time_ = 0;                  // those of the first input
  std::int64_t input_each_ = 0;   // elements of a sample
  std::int64_t target_each_ = 0;  // likewise
  Read const* x_ = nullptr;       // of the rank's first sample, as passes read it
  Target const* first_target_ = nullptr;  // likewise
  StepState state_{};
  Batch batch_{};
  StepResult result_{};
};

}  // namespace tandem
