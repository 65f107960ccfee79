// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stream and Event: owning, move-only wrappers of cudaStream_t and cudaEvent_t.
///
/// A Stream is a queue of device work that runs in order; an Event marks a point in a queue and is
/// the only thing that orders two queues. This library never uses the default stream and never
/// calls cudaDeviceSynchronize. No kernels here, so any C++20 compiler takes this header.

#include <cstddef>
#include <utility>

#include <cuda_runtime_api.h>

#include <tandem/core/clock.hpp>
#include <tandem/core/unique_handle.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>

namespace tandem::cuda {

/// Device time between two events. CUDA reports a float of milliseconds, good to about 0.5 us.
using Milliseconds = std::chrono::duration<float, std::milli>;

/// A point in a stream's order of work. Until a Stream records it, it counts as reached.
class Event {
 public:
  /// `off` is cheaper to record and to wait on; only elapsed() needs `on`.
  enum class Timing : bool { off, on };

  /// @throws Error  @p device does not exist, or its driver has no event left to give
  explicit Event(Device device, Timing timing = Timing::off) : handle_{make(device, timing)} {}

  /// Whether the device has reached the recorded point. Never blocks.
  /// @throws CudaError  work queued before the point has failed (CUDA reports such errors late)
  [[nodiscard]] bool reached() const {
    cudaError_t const status = cudaEventQuery(get());
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // not a failure: leave no error for a later check
      return false;
    }
    check(status);
    return true;
  }

  /// Blocks the calling thread until the device has reached the recorded point.
  void wait() const { check(cudaEventSynchronize(get())); }

  [[nodiscard]] cudaEvent_t get() const noexcept { return handle_.get(); }

 private:
  static cudaEvent_t make(Device device, Timing timing) {
    ScopedDevice const scope{device};
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(
        &event, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming));
    return event;
  }

  UniqueHandle<cudaEvent_t, cudaEventDestroy> handle_;
};

/// Counters on which the blocks of a kernel tell who comes last, in the device's memory: all 0
/// between kernels, since whoever comes last sets them back. Freed in the order of their stream.
class Arrivals {
 public:
  static constexpr std::size_t count = 256;

  Arrivals(Device device, cudaStream_t stream) : device_{device}, stream_{stream} {
    ScopedDevice const scope{device};
    constexpr std::size_t bytes = count * sizeof(unsigned);
    void* memory = nullptr;
    check(cudaMallocAsync(&memory, bytes, stream));
    memory_ = static_cast<unsigned*>(memory);
    check(cudaMemsetAsync(memory_, 0, bytes, stream));
  }
  Arrivals(Arrivals&& other) noexcept
      : device_{other.device_},
        memory_{std::exchange(other.memory_, nullptr)},
        stream_{other.stream_} {}
  Arrivals& operator=(Arrivals&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Arrivals() {
    if (memory_ != nullptr) {
      static_cast<void>(cudaFreeAsync(memory_, stream_));
    }
  }

  [[nodiscard]] unsigned* get() const noexcept { return memory_; }

 private:
  Device device_;
  unsigned* memory_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

/// A queue of work on one device. Work in one Stream runs in order, work in two may overlap.
///
/// Destroying a Stream does not wait: CUDA lets the queued work finish and then frees the queue.
/// Buffers that this work uses must live on; Buffer sees to that by freeing in stream order.
class Stream {
 public:
  /// @throws Error  @p device does not exist, or its driver has no stream left to give
  explicit Stream(Device device)
      : handle_{make(device)}, device_{device}, arrivals_{device, get()} {}

  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(device_, other.device_);
    std::swap(overlaps_, other.overlaps_);
    std::swap(arrivals_, other.arrivals_);
    return *this;
  }
  ~Stream() = default;

  void record(Event& event) { check(cudaEventRecord(event.get(), get())); }

  /// Holds back work queued from now on until @p event is reached. Does not block the caller.
  void wait_for(Event const& event) { check(cudaStreamWaitEvent(get(), event.get(), 0)); }

  /// Blocks the calling thread until the queue is empty. For tests and shutdown.
  void synchronize() const { check(cudaStreamSynchronize(get())); }

  /// Whether a kernel that launch() queues here may begin while the one before it ends:
  /// programmatic dependent launch, of GPUs from compute capability 9.0 on; ignored by others.
  void overlap_launches(bool wanted) {
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_.ordinal));
    overlaps_ = wanted && major >= 9;
  }
  [[nodiscard]] bool overlaps_launches() const noexcept { return overlaps_; }

  [[nodiscard]] cudaStream_t get() const noexcept { return handle_.get(); }
  [[nodiscard]] Device device() const noexcept { return device_; }
  /// For kernels on this stream, of which one runs at a time: they never share them. A graph has
  /// those of the stream that it was captured on, so nothing else may run there when it does.
  [[nodiscard]] unsigned* arrivals() const noexcept { return arrivals_.get(); }

 private:
  static cudaStream_t make(Device device) {
    ScopedDevice const scope{device};
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }

  UniqueHandle<cudaStream_t, cudaStreamDestroy> handle_;
  Device device_;
  bool overlaps_ = false;
  Arrivals arrivals_;  // goes first
};

/// @pre both events were made with Timing::on, on one device, and have been reached
[[nodiscard]] inline Milliseconds elapsed(Event const& begin, Event const& end) {
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return Milliseconds{milliseconds};
}

}  // namespace tandem::cuda
