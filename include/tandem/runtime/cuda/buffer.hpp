// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Buffer: device memory that starts as zeros, owned and move-only, freed in stream order.

#include <cstddef>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include <tandem/core/error.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem::cuda {

/// `bytes` of a GPU's memory aligned to 256, zero at first, from and on the compute stream.
///
/// Work queued on the compute stream may use it at once and need not have finished when it is
/// destroyed. Work on another stream must be ordered after its making and before its end by events.
class Buffer {
 public:
  Buffer() = default;

  /// @throws Error  the GPU has not so much memory; the message says how much was asked for
  /// @pre @p device outlives the buffer; its compute stream is not being captured, now or at the
  /// end
  Buffer(RankDevice& device, std::size_t bytes) : bytes_{bytes} {
    if (bytes == 0) {
      return;
    }
    ScopedDevice const scope{device.device};
    cudaStream_t const stream = device.compute.get();
    void* memory = nullptr;
    cudaError_t const status = cudaMallocFromPoolAsync(&memory, bytes, device.pool.get(), stream);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      throw Error{out_of_memory(device.device, bytes)};
    }
    check(status);
    data_ = static_cast<std::byte*>(memory);
    stream_ = stream;
    if (cudaError_t const zeroed = cudaMemsetAsync(memory, 0, bytes, stream);
        zeroed != cudaSuccess) {
      free();
      check(zeroed);
    }
  }

  Buffer(Buffer&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)},
        bytes_{std::exchange(other.bytes_, 0)},
        stream_{other.stream_} {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      free();
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
      stream_ = other.stream_;
    }
    return *this;
  }
  ~Buffer() { free(); }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return reinterpret_cast<T*>(data_);
  }

 private:
  static std::string out_of_memory(Device device, std::size_t bytes) {
    ScopedDevice const scope{device};
    std::size_t available = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&available, &total));
    return "out of memory: GPU " + std::to_string(device.ordinal) + " was asked for " +
           std::to_string(bytes) + " bytes and has " + std::to_string(available) + " of " +
           std::to_string(total) + " free; use a smaller batch or more microbatches";
  }

  void free() noexcept {
    if (data_ != nullptr) {
      report(cudaFreeAsync(std::exchange(data_, nullptr), stream_));
    }
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  cudaStream_t stream_ = nullptr;
};

}  // namespace tandem::cuda
