// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Feed on Cuda: batches and results cross between host and device while other steps are at work.
///
/// A batch is copied into page-locked memory, from there by the copy stream into one of two staging
/// buffers on the device, and from there by the step's first kernel to where the ops read it. So
/// the next batch travels while a step runs, and a recorded step can be replayed with any batch.
/// A device gets the samples only if it has the network's input, targets only if it has its result.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

#include <cuda_runtime_api.h>

#include <tandem/core/clock.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/step/feed.hpp>
#include <tandem/kernels/cuda/layout.cuh>
#include <tandem/kernels/cuda/take_batch.cuh>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/pinned.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

template <class Program, class Kernels, class Precision, class Target>
class Feed<Program, BasicCuda<Kernels, Precision>, Target> {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  using In = InputOf<typename Program::Program, BasicCuda<Kernels, Precision>>;
  using Batch = StepBatch<P, Target, In>;
  using Device = cuda::RankDevice;
  static constexpr Shape in = Program::Program::network.node[0].out;
  static constexpr Shape out = Program::Program::network.output().out;
  static constexpr std::int64_t inputs = in.elements();
  static_assert(!input_shape<typename Program::Program>(1).valid(),
                "Network<Inputs<A, B>, Body>: two inputs run on Host; on Cuda a network has one");
  static constexpr bool takes_indices = Program::Program::network.node[0].limit > 0;
  static constexpr int steps_in_flight = 2;

  Feed(Device& device, FeedSizes const& sizes)
      : sizes_{sizes},
        header_{device, sizeof(Header)},
        samples_{device,
                 Program::has_input
                     ? static_cast<std::size_t>(sizes.samples * input_stride) * sizeof(Stored)
                     : 0},
        targets_{device, target_bytes(result_samples(sizes), longest)},
        lengths_{device, length_bytes(sizes.samples)},
        outputs_{device, output_bytes(result_samples(sizes), longest)},
        slots_{
            Slot{device, taken_bytes(sizes), targets_.bytes(), lengths_.bytes(), outputs_.bytes()},
            Slot{device, taken_bytes(sizes), targets_.bytes(), lengths_.bytes(),
                 outputs_.bytes()}} {}

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
    taken_ = part_of(own, Program::has_input, input_copy);
    result_ = part_of(own, Program::has_result, result_copy);
    shard_ = {own.begin(), own.end() - own.begin()};
    time_ = own[0].time.of[0];
    has_targets_ = batch.targets != nullptr;
    has_lengths_ = batch.lengths != nullptr && in.timed;
    Slot& slot = slots_[queued_ % 2];
    slot.output_bytes = batch.outputs != nullptr ? output_bytes(result_.count, time_) : 0;
    slot.caller_outputs =
        slot.output_bytes > 0 ? batch.outputs + result_.first * out.elements(time_) : nullptr;
    if (taken_.count > 0) {
      stage(device, slot.samples, batch.x + taken_.first * in.elements(time_),
            sample_bytes(taken_.count, time_));
    }
    if (has_targets_ && result_.count > 0) {
      stage(device, slot.targets, batch.targets + result_.first * sizes_.targets.elements(time_),
            target_bytes(result_.count, time_));
    }
    if (has_lengths_ && shard_.count > 0) {
      stage(device, slot.lengths, batch.lengths + shard_.first, length_bytes(shard_.count));
    }
    device.copy.record(slot.staged);
    device.compute.wait_for(slot.staged);
    *slot.header.template as<Header>() = Header{
        .state = state,
        .result = {},
        .batch = {slot.samples.device.template as<In>(), slot.targets.device.template as<Target>(),
                  slot.lengths.device.template as<std::int32_t>()}};
    cuda::check(cudaMemcpyAsync(header_.data(), slot.header.data(), sizeof(Header),
                                cudaMemcpyHostToDevice, device.compute.get()));
  }

  [[nodiscard]] StepState const* state() const { return &header_.template as<Header>()->state; }
  [[nodiscard]] StepResult* result() { return &header_.template as<Header>()->result; }

  /// One kernel; where samples of odd size keep microbatches apart, one more for each of them.
  void load(Device& device, RankMicrobatches const& own) {
    std::int64_t const targets = has_targets_ ? result_.count * sizes_.targets.elements(time_) : 0;
    std::int64_t const lengths = has_lengths_ ? shard_.count : 0;
    if constexpr (is_packed) {
      take(device, taken_.first, taken_.count, targets, lengths);
    } else {
      take(device, taken_.first, 0, targets, lengths);
      for (Microbatch const& m : own.of_copy(input_copy)) {
        take(device, m.first, taken_.count > 0 ? m.size : 0, 0, 0);
      }
    }
  }

  /// The microbatch's samples, packed; begins at a multiple of 16 bytes.
  [[nodiscard]] T const* input(Microbatch const& m) const {
    return reinterpret_cast<T const*>(input_from(m.first));
  }
  [[nodiscard]] Target const* targets(Microbatch const& m) const {
    return targets_.template as<Target>() +
           (m.first - result_.first) * sizes_.targets.elements(time_);
  }
  [[nodiscard]] static constexpr std::int32_t const* second_lengths(Microbatch const& /*m*/) {
    return nullptr;
  }
  [[nodiscard]] std::int32_t const* lengths(Microbatch const& m) const {
    return has_lengths_ ? lengths_.template as<std::int32_t>() + (m.first - shard_.first) : nullptr;
  }

  void store(Device& device, T const* y, Microbatch const& m) {
    std::int64_t const outputs = out.elements(time_);
    cuda::from_channels_last(device.compute, m.size, channels(out),
                             static_cast<int>(outputs / channels(out)), y,
                             outputs_.template as<P>() + (m.first - result_.first) * outputs);
  }

  void end(Device& device) {
    Slot& slot = slots_[queued_ % 2];
    fetch(device, slot.result, result(), sizeof(StepResult));
    fetch(device, slot.outputs, outputs_.data(), slot.output_bytes);
    device.compute.record(slot.done);
    ++queued_;
  }

  [[nodiscard]] int waiting() const { return static_cast<int>(queued_ - collected_); }

  template <class Wait>
  StepResult collect(Device& device, Wait const& wait) {
    expects(waiting() > 0, "Feed: no step is queued");
    Slot& slot = slots_[collected_ % 2];
    wait(device, slot.done);
    ++collected_;
    if (slot.output_bytes > 0) {
      std::memcpy(slot.caller_outputs, slot.outputs.data(), slot.output_bytes);
    }
    return *slot.result.template as<StepResult>();
  }

  [[nodiscard]] std::int64_t bytes() const {
    std::size_t sum =
        header_.bytes() + samples_.bytes() + targets_.bytes() + lengths_.bytes() + outputs_.bytes();
    for (Slot const& slot : slots_) {
      sum +=
          slot.samples.device.bytes() + slot.targets.device.bytes() + slot.lengths.device.bytes();
    }
    return static_cast<std::int64_t>(sum);
  }

 private:
  // What the device has of a step besides its data.
  struct Header {
    StepState state{};
    StepResult result{};
    cuda::StagedBatch<In, Target> batch{};
  };

  // Samples of the global batch.
  struct Part {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  // Of the model's copies, which one has this node on this device.
  static constexpr int copy_of(int node) {
    for (auto const& stage : Program::stages.stage) {
      if (node >= stage.first && node < stage.last) {
        return stage.copy;
      }
    }
    return 0;
  }
  static constexpr int input_copy = [] {
    int node = 0;
    while (node + 1 < Program::graph.nodes && Program::graph.node[node].kind != NodeKind::input) {
      ++node;
    }
    return copy_of(node);
  }();
  static constexpr int result_copy = copy_of(Program::graph.result);

  static Part part_of(RankMicrobatches const& own, bool has, int copy) {
    return {own.begin(copy), has ? own.end(copy) - own.begin(copy) : 0};
  }

  // Page-locked memory, and the device's memory that it is copied to.
  struct Staging {
    Staging(Device& rank_device, std::size_t bytes)
        : host{bytes, rank_device.device}, device{rank_device, bytes} {}
    cuda::PinnedBuffer host;
    cuda::Buffer device;
  };

  struct Slot {
    Slot(Device& device, std::size_t sample_bytes, std::size_t target_bytes,
         std::size_t length_bytes, std::size_t output_bytes_most)
        : samples{device, sample_bytes},
          targets{device, target_bytes},
          lengths{device, length_bytes},
          header{sizeof(Header), device.device},
          result{sizeof(StepResult), device.device},
          outputs{output_bytes_most, device.device},
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

    Staging samples;
    Staging targets;
    Staging lengths;
    cuda::PinnedBuffer header;
    cuda::PinnedBuffer result;
    cuda::PinnedBuffer outputs;
    cuda::Event staged;
    cuda::Event done;
    P* caller_outputs = nullptr;
    std::size_t output_bytes = 0;
  };

  // What ops read: indices as they are, numbers as activations.
  using Stored = std::conditional_t<takes_indices, std::int32_t, T>;
  static constexpr int longest = in.timed ? in[0] : 0;

  // Each microbatch begins where its first sample would if all of them took this many elements, a
  // multiple of 16 bytes, which cuDNN and cuBLASLt have been promised. Indices are read one by one.
  static constexpr std::int64_t input_stride = [] {
    constexpr std::int64_t elements = takes_indices ? 1 : 16 / sizeof(T);
    return (inputs + elements - 1) / elements * elements;
  }();
  // Whether the samples of all microbatches lie side by side.
  static constexpr bool is_packed = takes_indices || (input_stride == inputs && !in.timed);

  [[nodiscard]] Stored* input_from(std::int64_t sample) const {
    std::int64_t const stride = is_packed ? in.elements(time_) : input_stride;
    return samples_.template as<Stored>() + (sample - taken_.first) * stride;
  }

  // Samples from one of the global batch on, targets, and lengths.
  void take(Device& device, std::int64_t first, std::int64_t count, std::int64_t target_count,
            std::int64_t length_count) {
    std::int64_t const each = in.elements(time_);
    if (count > 0 || target_count > 0 || length_count > 0) {
      cuda::take_batch(
          device.compute, &header_.template as<Header>()->batch, (first - taken_.first) * each,
          count * each, channels(in), each / channels(in), input_from(first), target_count,
          targets_.template as<Target>(), length_count, lengths_.template as<std::int32_t>());
    }
  }

  static constexpr int channels(Shape shape) { return shape.rank == 3 ? shape[0] : 1; }
  static std::int64_t result_samples(FeedSizes const& sizes) {
    return Program::has_result ? sizes.samples : 0;
  }
  static std::size_t taken_bytes(FeedSizes const& sizes) {
    return Program::has_input ? sample_bytes(sizes.samples, longest) : 0;
  }
  [[nodiscard]] static std::size_t sample_bytes(std::int64_t samples, int time) {
    return static_cast<std::size_t>(samples * in.elements(time)) * sizeof(In);
  }
  [[nodiscard]] static std::size_t output_bytes(std::int64_t samples, int time) {
    return static_cast<std::size_t>(samples * out.elements(time)) * sizeof(P);
  }
  [[nodiscard]] std::size_t target_bytes(std::int64_t samples, int time) const {
    return static_cast<std::size_t>(samples * sizes_.targets.elements(time)) * sizeof(Target);
  }
  [[nodiscard]] static std::size_t length_bytes(std::int64_t samples) {
    return in.timed ? static_cast<std::size_t>(samples) * sizeof(std::int32_t) : 0;
  }

  // The staging buffer is free: the step that read it last has been collected.
  static void stage(Device& device, Staging& staging, void const* data, std::size_t bytes) {
    if (bytes > 0) {
      std::memcpy(staging.host.data(), data, bytes);
      cuda::check(cudaMemcpyAsync(staging.device.data(), staging.host.data(), bytes,
                                  cudaMemcpyHostToDevice, device.copy.get()));
    }
  }
  static void fetch(Device& device, cuda::PinnedBuffer& to, void const* from, std::size_t bytes) {
    if (bytes > 0) {
      cuda::check(
          cudaMemcpyAsync(to.data(), from, bytes, cudaMemcpyDeviceToHost, device.compute.get()));
    }
  }

  FeedSizes sizes_;
  cuda::Buffer header_;
  cuda::Buffer samples_;  // (samples, H, W, C), what ops read
  cuda::Buffer targets_;
  cuda::Buffer lengths_;
  cuda::Buffer outputs_;  // (samples, output), as the caller gets them
  Slot slots_[2];
  Part taken_;   // of the step at work: the samples that the device takes
  Part result_;  // those of which it has the network's result
  Part shard_;   // and all that it has
  int time_ = 0;
  bool has_targets_ = false;
  bool has_lengths_ = false;
  unsigned queued_ = 0;
  unsigned collected_ = 0;
};

}  // namespace tandem
