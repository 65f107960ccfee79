// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PinnedBuffer: host memory that GPUs read and write directly, zero at first.

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include <tandem/core/error.hpp>
#include <tandem/core/unique_handle.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>

namespace tandem::cuda {

/// `bytes` of page-locked host memory, aligned to 256, zero at first. Copies from and to it do not
/// block the caller, and a captured graph may hold its address.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;

  /// All GPUs may use it; @p device is the one whose driver context makes it.
  /// @throws Error  the machine has not so much memory to lock
  /// @pre no device work uses the buffer when it is destroyed
  explicit PinnedBuffer(std::size_t bytes, Device device = {})
      : handle_{make(bytes, device)}, bytes_{bytes} {}

  PinnedBuffer(PinnedBuffer&& other) noexcept
      : handle_{std::move(other.handle_)}, bytes_{std::exchange(other.bytes_, 0)} {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    handle_ = std::move(other.handle_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~PinnedBuffer() = default;

  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(handle_.get()); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return static_cast<T*>(handle_.get());
  }

 private:
  static void* make(std::size_t bytes, Device device) {
    if (bytes == 0) {
      return nullptr;
    }
    ScopedDevice const scope{device};
    void* memory = nullptr;
    cudaError_t const status = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      throw Error{"out of memory: the host was asked for " + std::to_string(bytes) +
                  " bytes of page-locked memory; use a smaller batch, or raise the limit of "
                  "locked memory (ulimit -l)"};
    }
    check(status);
    std::memset(memory, 0, bytes);
    return memory;
  }

  UniqueHandle<void*, cudaFreeHost> handle_;
  std::size_t bytes_ = 0;
};

}  // namespace tandem::cuda
