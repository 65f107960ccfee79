// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Feed on Cuda: batches and results cross between host and device while other steps are at work.
///
/// A batch is copied into page-locked memory, from there by the copy stream into one of two staging
/// buffers on the device, and from there by the step's first kernel to where the ops read it. So
/// the next batch travels while a step runs, and a recorded step can be replayed with any batch.
/// A device gets the samples only if it has an input of the network, targets only if it has its
/// result.

#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>

#include <cuda_runtime_api.h>

#include <tandem/core/clock.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/step/cuda/input_feed.cuh>
#include <tandem/engine/step/cuda/staging.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/kernels/cuda/layout.cuh>
#include <tandem/kernels/cuda/take_batch.cuh>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/pinned.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

/// The network's outputs, and a criterion's scores, each where the step wants them: written by its
/// kernels, fetched behind it into one of two places, used in turn, given to the caller when it is
/// collected.
template <class Backend>
class OutputFeed {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Device = cuda::RankDevice;

  /// @param output   the network's
  /// @param samples  of the largest shard, if the device has the network's result, else 0
  OutputFeed(Device& device, Node const& output, std::int64_t samples)
      : shape_{output.out},
        limit_{output.limit},
        outputs_{device, output_bytes(samples, shape_.timed ? shape_[0] : 0)},
        places_{Place{{cuda::PinnedBuffer{outputs_.bytes(), device.device}}},
                Place{{cuda::PinnedBuffer{outputs_.bytes(), device.device}}}} {}

  /// Begins a step of samples @p result of the global batch, of @p time rows. There is memory for
  /// scores from the first step on that wants them.
  /// @param outputs  the caller's, of the global batch; null: not wanted; likewise @p scores
  void begin(Device& device, int place, FeedPart const& result, int time, P* outputs,
             float* scores) {
    result_ = result;
    time_ = time;
    wants_scores_ = scores != nullptr && result.count > 0;
    Place& at = places_[place];
    at.outputs.bytes = outputs != nullptr ? output_bytes(result.count, time) : 0;
    at.outputs.caller = outputs != nullptr ? outputs + result.first * each() : nullptr;
    at.scores.bytes =
        wants_scores_ ? static_cast<std::size_t>(result.count * limit_) * sizeof(float) : 0;
    at.scores.caller = wants_scores_ ? scores + result.first * limit_ : nullptr;
    if (at.scores.bytes > scores_.bytes()) {
      scores_ = cuda::Buffer{device, at.scores.bytes};
    }
    if (at.scores.bytes > at.scores.host.bytes()) {
      at.scores.host = cuda::PinnedBuffer{at.scores.bytes, device.device};
    }
  }

  /// Queues that a microbatch's outputs @p y are kept for the caller, in its order of axes.
  void store(Device const& device, T const* y, Microbatch const& m) const {
    int const channels = shape_.rank == 3 ? shape_[0] : 1;
    cuda::from_channels_last(device.compute, m.size, channels, static_cast<int>(each() / channels),
                             y, outputs_.template as<P>() + (m.first - result_.first) * each());
  }
  /// Where a criterion writes those of the microbatch; null: they are not wanted.
  [[nodiscard]] float* scores(Microbatch const& m) const {
    return wants_scores_ ? scores_.template as<float>() + (m.first - result_.first) * limit_
                         : nullptr;
  }

  void fetch(Device const& device, int place) const {
    places_[place].outputs.fetch(device, outputs_.data());
    places_[place].scores.fetch(device, scores_.data());
  }
  /// @pre what fetch() queued for this place is over
  void deliver(int place) const {
    places_[place].outputs.deliver();
    places_[place].scores.deliver();
  }

  /// Bytes of the device's memory.
  [[nodiscard]] std::size_t bytes() const { return outputs_.bytes() + scores_.bytes(); }

 private:
  struct Place {
    cuda::Fetching outputs;
    cuda::Fetching scores{};
  };

  [[nodiscard]] std::int64_t each() const { return shape_.elements(time_); }
  [[nodiscard]] std::size_t output_bytes(std::int64_t samples, int time) const {
    return static_cast<std::size_t>(samples * shape_.elements(time)) * sizeof(P);
  }

  Shape shape_;
  std::int64_t limit_;
  cuda::Buffer outputs_;  // (samples, output), as the caller gets them
  cuda::Buffer scores_;   // (samples, limit)
  Place places_[2];
  FeedPart result_;  // of the step at work
  int time_ = 0;
  bool wants_scores_ = false;
};

template <class Kernels, class Precision, class BatchType>
class Feed<BasicCuda<Kernels, Precision>, BatchType> {
 public:
  using Backend = BasicCuda<Kernels, Precision>;
  using Batch = BatchType;
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  using In = typename Batch::Input;
  using Target = typename Batch::TargetType;
  using Device = cuda::RankDevice;
  static constexpr int steps_in_flight = 2;

  Feed(Device& device, FeedTask const& task)
      : tables_{task.tables},
        out_{output().out},
        target_shape_{task.targets},
        has_second_{input_shape(tables_.network, 1).valid()},
        in_chunks_{tables_.batching.chunks > 1},
        input_copy_{copy_of(input_node())},
        result_copy_{copy_of(tables_.graph.result)},
        header_{device, sizeof(Header)},
        input_{device, task, 0},
        second_{device, task, 1},
        targets_{device, target_bytes(result_samples(task), out_.timed ? out_[0] : 0)},
        output_{device, output(), result_samples(task)},
        chunks_{in_chunks_ ? task.samples : 0, input_shape(tables_.network, 0).elements(),
                tables_.batching.chunks},
        slots_{Slot{device, targets_.bytes()}, Slot{device, targets_.bytes()}} {}

  Feed(Feed const&) = delete;
  Feed& operator=(Feed const&) = delete;

  /// Page-locked memory may not go while a copy is on its way to or from it. After an error steps
  /// may be queued still; communicators have been aborted, so that they end soon.
  ~Feed() {
    for (Slot& slot : slots_) {
      for (int look = 0; look < 5000 && slot.busy(); ++look) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
    }
  }

  template <class Wait>
  void begin(Device& device, StepState const& state, Batch const& batch,
             RankMicrobatches const& own, Wait const& /*wait*/) {
    expects(waiting() < steps_in_flight, "Feed: collect the oldest step before you queue another");
    FeedPart const shard{own.begin(), own.end() - own.begin()};
    FeedPart const taken = has_second_ ? FeedPart{shard.first, tables_.has_input ? shard.count : 0}
                                       : part_of(own, tables_.has_input, input_copy_);
    result_ = part_of(own, tables_.has_result, result_copy_);
    Given const given = this->given(batch, own);
    time_ = in_chunks_ ? given.input.time : own[0].time[out_];
    has_targets_ = given.targets != nullptr;
    int const place = static_cast<int>(queued_ % 2);
    Slot& slot = slots_[place];
    output_.begin(device, place, result_, time_, batch.outputs, batch.scores);
    input_.stage(device, place, given.input, taken, shard, given.from);
    if (has_second_) {
      second_.stage(
          device, place,
          {batch.second.x, own[0].time.of[1], advanced(batch.second.lengths, shard.first)}, taken,
          shard, batch.from);
    }
    if (has_targets_ && result_.count > 0) {
      slot.targets.stage(
          device, given.targets + (result_.first - given.from) * target_shape_.elements(time_),
          target_bytes(result_.count, time_));
    }
    device.copy.record(slot.staged);
    device.compute.wait_for(slot.staged);
    *slot.header.template as<Header>() =
        Header{.state = state,
               .result = {},
               .batch = input_.staged(place, slot.targets.device.template as<Target const>()),
               .second = second_.template staged<Target>(place, nullptr)};
    cuda::copy_bytes(header_.data(), slot.header.data(), sizeof(Header), cudaMemcpyHostToDevice,
                     device.compute);
  }

  [[nodiscard]] StepState const* state() const { return &header_.template as<Header>()->state; }
  [[nodiscard]] StepResult* result() { return &header_.template as<Header>()->result; }

  /// One kernel, or a few: as InputFeed::take says.
  void load(Device& device, RankMicrobatches const& own) {
    std::int64_t const targets = has_targets_ ? result_.count * target_shape_.elements(time_) : 0;
    input_.take(device, &header_.template as<Header>()->batch, own.of_copy(input_copy_), targets,
                targets_.template as<Target>());
    if (has_second_) {
      second_.template take<Target>(device, &header_.template as<Header>()->second, {}, 0, nullptr);
    }
  }

  /// In the device's memory, as InputFeed's.
  [[nodiscard]] T const* input(Microbatch const& m) const { return input_.samples(m); }
  [[nodiscard]] T const* second_input(Microbatch const& m) const { return second_.samples(m); }
  [[nodiscard]] std::int32_t const* lengths(Microbatch const& m) const { return input_.lengths(m); }
  [[nodiscard]] std::int32_t const* second_lengths(Microbatch const& m) const {
    return second_.lengths(m);
  }
  [[nodiscard]] Target const* targets(Microbatch const& m) const {
    std::int64_t const before = m.position > 0 ? std::int64_t{m.size} * m.position : 0;
    return targets_.template as<Target>() +
           (m.first - result_.first) * target_shape_.elements(time_) + before;
  }
  [[nodiscard]] float* scores(Microbatch const& m) const { return output_.scores(m); }

  void store(Device& device, T const* y, Microbatch const& m) { output_.store(device, y, m); }

  void end(Device& device) {
    int const place = static_cast<int>(queued_ % 2);
    Slot& slot = slots_[place];
    slot.result.fetch(device, result());
    output_.fetch(device, place);
    device.compute.record(slot.done);
    ++queued_;
  }

  [[nodiscard]] int waiting() const { return static_cast<int>(queued_ - collected_); }

  template <class Wait>
  StepResult collect(Device& device, Wait const& wait) {
    expects(waiting() > 0, "Feed: no step is queued");
    int const place = static_cast<int>(collected_ % 2);
    Slot& slot = slots_[place];
    wait(device, slot.done);
    ++collected_;
    output_.deliver(place);
    return *slot.result.host.template as<StepResult>();
  }

  [[nodiscard]] std::int64_t bytes() const {
    std::size_t sum =
        header_.bytes() + input_.bytes() + second_.bytes() + targets_.bytes() + output_.bytes();
    for (Slot const& slot : slots_) {
      sum += slot.targets.device.bytes();
    }
    return static_cast<std::int64_t>(sum);
  }

 private:
  // What the device has of a step besides its data.
  struct Header {
    StepState state{};
    StepResult result{};
    cuda::StagedBatch<In, Target> batch{};
    cuda::StagedBatch<In, Target> second{};
  };

  // A step's data in the order in which it is staged.
  struct Given {
    StepInput<In> input;    // its lengths those of the rank's first sample and of the next ones
    Target const* targets;  // from sample `from` of the global batch on, as input.x
    int from;
  };
  Given given(Batch const& batch, RankMicrobatches const& own) {
    std::int32_t const* const lengths = advanced(batch.lengths, own.begin());
    if constexpr (std::is_same_v<In, std::int32_t>) {
      if (in_chunks_) {
        std::int64_t const at = (own.begin() - batch.from) * own.time().of[0];
        chunks_.load(own, batch.x + at, advanced(batch.targets, at), lengths);
        return {{chunks_.inputs(), chunks_.time(), chunks_.lengths()},
                batch.targets != nullptr ? chunks_.targets() : nullptr,
                static_cast<int>(own.begin())};
      }
    }
    return {{batch.x, own[0].time.of[0], lengths}, batch.targets, batch.from};
  }
  template <class E>
  static E const* advanced(E const* all, std::int64_t first) {
    return all != nullptr ? all + first : nullptr;
  }

  [[nodiscard]] Node const& output() const { return tables_.network.node[tables_.network.result]; }
  // Of the model's copies, which one has this node on this device.
  [[nodiscard]] int copy_of(int node) const {
    for (LocalStage const& stage : tables_.stages) {
      if (node >= stage.first && node < stage.last) {
        return stage.copy;
      }
    }
    return 0;
  }
  [[nodiscard]] int input_node() const {
    int node = 0;
    while (node + 1 < tables_.graph.nodes && tables_.graph.node[node].kind != NodeKind::input) {
      ++node;
    }
    return node;
  }

  static FeedPart part_of(RankMicrobatches const& own, bool has, int copy) {
    return {own.begin(copy), has ? own.end(copy) - own.begin(copy) : 0};
  }

  struct Slot {
    Slot(Device& device, std::size_t target_bytes)
        : targets{device, target_bytes},
          header{sizeof(Header), device.device},
          result{cuda::PinnedBuffer{sizeof(StepResult), device.device}, nullptr,
                 sizeof(StepResult)},
          staged{device.device},
          done{device.device} {}

    // Whether a copy may be on its way. An error on the device has ended it.
    [[nodiscard]] bool busy() const noexcept {
      try {
        return !staged.reached() || !done.reached();
      } catch (cuda::CudaError const&) {
        return false;
      }
    }

    cuda::Staging targets;
    cuda::PinnedBuffer header;
    cuda::Fetching result;
    cuda::Event staged;
    cuda::Event done;
  };

  static std::int64_t result_samples(FeedTask const& task) {
    return task.tables.has_result ? task.samples : 0;
  }
  [[nodiscard]] std::size_t target_bytes(std::int64_t samples, int time) const {
    return static_cast<std::size_t>(samples * target_shape_.elements(time)) * sizeof(Target);
  }

  DeviceTables const& tables_;
  Shape out_;           // of the network
  Shape target_shape_;  // of a sample
  // Two inputs are indices both, and small: a device takes all of its shard, whichever of the
  // model's copies reads which.
  bool has_second_;
  bool in_chunks_;  // a pass has a chunk of each sequence: what is staged stands chunk by chunk
  int input_copy_;
  int result_copy_;
  cuda::Buffer header_;
  InputFeed<Backend, In> input_;
  InputFeed<Backend, In> second_;
  cuda::Buffer targets_;
  OutputFeed<Backend> output_;
  ChunkFeed<Target> chunks_;
  Slot slots_[2];
  FeedPart result_;  // of the step at work: samples of which it has the network's result
  int time_ = 0;     // rows of its outputs and targets
  bool has_targets_ = false;
  unsigned queued_ = 0;
  unsigned collected_ = 0;
};

}  // namespace tandem
