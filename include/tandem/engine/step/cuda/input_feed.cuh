// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// InputFeed: one input of a network, and the lengths of its samples, on the way to a GPU.

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <tandem/engine/step/cuda/staging.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/kernels/cuda/take_batch.cuh>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

/// Samples of the global batch.
struct FeedPart {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// As a Feed on Cuda stages and takes a step's data: two staging buffers, used in turn, and what
/// the ops read. A device takes the samples only where it has inputs; lengths it has of its shard.
/// @tparam In  of the caller's: indices, or numbers
template <class Backend, class In>
class InputFeed {
 public:
  using T = typename Backend::Scalar;
  using Device = cuda::RankDevice;
  static constexpr bool takes_indices = std::is_same_v<In, std::int32_t>;

  /// @param number  of the input; where the network has fewer, nothing is held
  InputFeed(Device& device, FeedTask const& task, int number)
      : shape_{input_shape(task.tables.network, number)},
        chunks_{task.tables.batching.chunks},
        channels_{shape_.rank == 3 ? shape_[0] : 1},
        stride_{stride_of(shape_)},
        is_packed_{takes_indices || (stride_ == shape_.elements() && !shape_.timed)},
        has_input_{task.tables.has_input},
        samples_{device, has_input_
                             ? static_cast<std::size_t>(task.samples * stride_) * sizeof(Stored)
                             : 0},
        lengths_{device, length_bytes(task.samples)},
        places_{Place{device, taken_bytes(task.samples), lengths_.bytes()},
                Place{device, taken_bytes(task.samples), lengths_.bytes()}} {}

  /// Stages a step's samples @p taken of the global batch, and the lengths of @p shard, which
  /// batch.lengths begins with; where passes have chunks of time, of each chunk.
  /// @param place  which of the buffers, 0 or 1
  /// @param from   the sample of the global batch that batch.x begins with
  void stage(Device const& device, int place, StepInput<In> const& batch, FeedPart const& taken,
             FeedPart const& shard, int from) {
    taken_ = taken;
    shard_ = shard;
    time_ = batch.time;
    has_lengths_ = batch.lengths != nullptr && shape_.timed;
    if (taken.count > 0) {
      places_[place].samples.stage(device, batch.x + (taken.first - from) * each(),
                                   bytes_of(taken.count));
    }
    if (has_lengths_ && shard.count > 0) {
      places_[place].lengths.stage(device, batch.lengths, length_bytes(shard.count));
    }
  }
  /// Where stage() put it, beside @p targets.
  template <class Target>
  [[nodiscard]] cuda::StagedBatch<In, Target> staged(int place, Target const* targets) const {
    Place const& at = places_[place];
    return {at.samples.device.template as<In>(), targets,
            at.lengths.device.template as<std::int32_t>()};
  }

  /// Queues that all of it is taken from where @p staged, in the device's memory, says, together
  /// with targets. One kernel; where samples of odd size keep microbatches apart, one more for each
  /// of @p microbatches.
  template <class Target>
  void take(Device const& device, cuda::StagedBatch<In, Target> const* staged,
            std::span<Microbatch const> microbatches, std::int64_t target_count,
            Target* targets) const {
    std::int64_t const lengths = has_lengths_ ? shard_.count * chunks_ : 0;
    auto const some = [&](std::int64_t first, std::int64_t count, std::int64_t target_elements,
                          std::int64_t length_elements) {
      if (count > 0 || target_elements > 0 || length_elements > 0) {
        cuda::take_batch(device.compute, staged, (first - taken_.first) * each(), count * each(),
                         channels_, each() / channels_, from(first), rows_from(first),
                         target_elements, targets, length_elements,
                         lengths_.template as<std::int32_t>());
      }
    };
    if (is_packed_) {
      some(taken_.first, taken_.count, target_count, lengths);
    } else {
      some(taken_.first, 0, target_count, lengths);
      for (Microbatch const& m : microbatches) {
        some(m.first, taken_.count > 0 ? m.size : 0, 0, 0);
      }
    }
  }

  /// The microbatch's samples, packed; begins at a multiple of 16 bytes where they are numbers.
  [[nodiscard]] T const* samples(Microbatch const& m) const {
    std::int64_t const before = m.position > 0 ? std::int64_t{m.size} * m.position : 0;
    return reinterpret_cast<T const*>(from(m.first) + before);
  }
  [[nodiscard]] std::int32_t const* lengths(Microbatch const& m) const {
    std::int64_t const place = (m.first - shard_.first) * chunks_ + std::int64_t{m.size} * m.chunk;
    return has_lengths_ ? lengths_.template as<std::int32_t>() + place : nullptr;
  }

  /// Bytes of the device's memory.
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = samples_.bytes() + lengths_.bytes();
    for (Place const& place : places_) {
      sum += place.samples.device.bytes() + place.lengths.device.bytes();
    }
    return sum;
  }

 private:
  // What ops read: indices as they are, numbers as activations.
  using Stored = std::conditional_t<takes_indices, std::int32_t, T>;

  struct Place {
    Place(Device& device, std::size_t sample_bytes, std::size_t length_bytes)
        : samples{device, sample_bytes}, lengths{device, length_bytes} {}
    cuda::Staging samples;
    cuda::Staging lengths;
  };

  // Each microbatch begins where its first sample would if all of them took this many elements, a
  // multiple of 16 bytes, which cuDNN and cuBLASLt have been promised. Indices are read one by one.
  static std::int64_t stride_of(Shape const& shape) {
    constexpr std::int64_t elements = takes_indices ? 1 : 16 / sizeof(T);
    return (shape.elements() + elements - 1) / elements * elements;
  }

  [[nodiscard]] std::int64_t each() const { return shape_.elements(time_); }
  [[nodiscard]] Stored* from(std::int64_t sample) const {
    return samples_.template as<Stored>() +
           (sample - taken_.first) * (is_packed_ ? each() : stride_);
  }
  // Of indices that begin with those of @p sample. In chunks of time gradients are sums of others
  // anyway.
  [[nodiscard]] cuda::TakenRows rows_from(std::int64_t sample) const {
    return takes_indices && has_lengths_ && chunks_ == 1
               ? cuda::TakenRows{each(), sample - shard_.first}
               : cuda::TakenRows{};
  }
  [[nodiscard]] std::size_t bytes_of(std::int64_t samples) const {
    return static_cast<std::size_t>(samples * each()) * sizeof(In);
  }
  [[nodiscard]] std::size_t taken_bytes(std::int64_t samples) const {
    return has_input_ ? static_cast<std::size_t>(samples * shape_.elements()) * sizeof(In) : 0;
  }
  [[nodiscard]] std::size_t length_bytes(std::int64_t samples) const {
    return shape_.timed ? static_cast<std::size_t>(samples * chunks_) * sizeof(std::int32_t) : 0;
  }

  Shape shape_;
  int chunks_;  // of time
  int channels_;
  std::int64_t stride_;
  bool is_packed_;  // the samples of all microbatches lie side by side
  bool has_input_;
  cuda::Buffer samples_;  // (samples, H, W, C), what ops read
  cuda::Buffer lengths_;
  Place places_[2];
  FeedPart taken_;  // of the step at work: the samples that the device takes
  FeedPart shard_;  // and all that it has
  int time_ = 0;
  bool has_lengths_ = false;
};

}  // namespace tandem
