// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Feed on Cuda: batches and results cross between host and device while other steps are at work.
///
/// A batch is copied into page-locked memory, from there by the copy stream into one of two staging
/// buffers on the device, and from there by the step's first kernel to where the ops read it. So
/// the next batch travels while a step runs, and a recorded step can be replayed with any batch.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

#include <cuda_runtime_api.h>

#include <tandem/core/clock.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/feed.hpp>
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
  using Batch = StepBatch<P, Target>;
  using Device = cuda::RankDevice;
  static constexpr Shape in = Program::graph.node[0].out;
  static constexpr Shape out = Program::graph.output().out;
  static constexpr std::int64_t inputs = in.elements();
  static constexpr std::int64_t outputs = out.elements();
  static constexpr int steps_in_flight = 2;

  Feed(Device& device, FeedSizes const& sizes)
      : sizes_{sizes},
        header_{device, sizeof(Header)},
        samples_{device, static_cast<std::size_t>(sizes.samples * inputs) * sizeof(T)},
        targets_{device, target_bytes(sizes.samples)},
        outputs_{device, static_cast<std::size_t>(sizes.samples * outputs) * sizeof(P)},
        slots_{Slot{device, sample_bytes(sizes.samples), target_bytes(sizes.samples),
                    outputs_.bytes()},
               Slot{device, sample_bytes(sizes.samples), target_bytes(sizes.samples),
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
    first_ = own.begin();
    count_ = own.end() - own.begin();
    Slot& slot = slots_[queued_ % 2];
    slot.caller_outputs = batch.outputs != nullptr ? batch.outputs + first_ * outputs : nullptr;
    stage(device, slot.samples, batch.x + first_ * inputs, sample_bytes(count_));
    if (batch.targets != nullptr) {
      stage(device, slot.targets, batch.targets + first_ * sizes_.targets_per_sample,
            target_bytes(count_));
    }
    has_targets_ = batch.targets != nullptr;
    device.copy.record(slot.staged);
    device.compute.wait_for(slot.staged);
    *slot.header.template as<Header>() = Header{
        .state = state,
        .result = {},
        .batch = {slot.samples.device.template as<P>(), slot.targets.device.template as<Target>()}};
    cuda::check(cudaMemcpyAsync(header_.data(), slot.header.data(), sizeof(Header),
                                cudaMemcpyHostToDevice, device.compute.get()));
  }

  [[nodiscard]] StepState const* state() const { return &header_.template as<Header>()->state; }
  [[nodiscard]] StepResult* result() { return &header_.template as<Header>()->result; }

  void load(Device& device, RankMicrobatches const& /*own*/) {
    cuda::take_batch(device.compute, &header_.template as<Header>()->batch, count_ * inputs,
                     channels(in), inputs / channels(in), samples_.template as<T>(),
                     has_targets_ ? count_ * sizes_.targets_per_sample : 0,
                     targets_.template as<Target>());
  }

  [[nodiscard]] T const* input(Microbatch const& m) const {
    return samples_.template as<T>() + (m.first - first_) * inputs;
  }
  [[nodiscard]] Target const* targets(Microbatch const& m) const {
    return targets_.template as<Target>() + (m.first - first_) * sizes_.targets_per_sample;
  }

  void store(Device& device, T const* y, Microbatch const& m) {
    cuda::from_channels_last(device.compute, m.size, channels(out),
                             static_cast<int>(outputs / channels(out)), y,
                             outputs_.template as<P>() + (m.first - first_) * outputs);
  }

  void end(Device& device) {
    Slot& slot = slots_[queued_ % 2];
    fetch(device, slot.result, result(), sizeof(StepResult));
    if (slot.caller_outputs != nullptr) {
      slot.output_bytes = static_cast<std::size_t>(count_ * outputs) * sizeof(P);
      fetch(device, slot.outputs, outputs_.data(), slot.output_bytes);
    }
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
    if (slot.caller_outputs != nullptr && slot.output_bytes > 0) {
      std::memcpy(slot.caller_outputs, slot.outputs.data(), slot.output_bytes);
    }
    return *slot.result.template as<StepResult>();
  }

  [[nodiscard]] std::int64_t bytes() const {
    std::size_t sum = header_.bytes() + samples_.bytes() + targets_.bytes() + outputs_.bytes();
    for (Slot const& slot : slots_) {
      sum += slot.samples.device.bytes() + slot.targets.device.bytes();
    }
    return static_cast<std::int64_t>(sum);
  }

 private:
  // What the device has of a step besides its data.
  struct Header {
    StepState state{};
    StepResult result{};
    cuda::StagedBatch<P, Target> batch{};
  };

  // Page-locked memory, and the device's memory that it is copied to.
  struct Staging {
    Staging(Device& rank_device, std::size_t bytes)
        : host{bytes, rank_device.device}, device{rank_device, bytes} {}
    cuda::PinnedBuffer host;
    cuda::Buffer device;
  };

  struct Slot {
    Slot(Device& device, std::size_t sample_bytes, std::size_t target_bytes,
         std::size_t output_bytes_most)
        : samples{device, sample_bytes},
          targets{device, target_bytes},
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
    cuda::PinnedBuffer header;
    cuda::PinnedBuffer result;
    cuda::PinnedBuffer outputs;
    cuda::Event staged;
    cuda::Event done;
    P* caller_outputs = nullptr;
    std::size_t output_bytes = 0;
  };

  static constexpr int channels(Shape shape) { return shape.rank == 3 ? shape[0] : 1; }
  [[nodiscard]] static std::size_t sample_bytes(std::int64_t samples) {
    return static_cast<std::size_t>(samples * inputs) * sizeof(P);
  }
  [[nodiscard]] std::size_t target_bytes(std::int64_t samples) const {
    return static_cast<std::size_t>(samples * sizes_.targets_per_sample) * sizeof(Target);
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
  cuda::Buffer samples_;  // (shard, H, W, C), what ops read
  cuda::Buffer targets_;
  cuda::Buffer outputs_;  // (shard, output), as the caller gets them
  Slot slots_[2];
  std::int64_t first_ = 0;  // the shard's, of the step at work
  std::int64_t count_ = 0;
  bool has_targets_ = false;
  unsigned queued_ = 0;
  unsigned collected_ = 0;
};

}  // namespace tandem
