// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MemoryPool: where the buffers of one rank come from.
///
/// A pool of its own, not the device's default one, so that other libraries' use of that one
/// neither takes nor gives back this library's memory.

#include <cstdint>

#include <cuda_runtime_api.h>

#include <tandem/core/unique_handle.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>

namespace tandem::cuda {

/// Device memory that is allocated and freed in stream order. Freed memory stays in the pool until
/// the pool is destroyed; memory that is then still in use lives until it is freed.
class MemoryPool {
 public:
  /// @throws Error  @p device does not exist, or has no memory pools
  explicit MemoryPool(Device device) : handle_{make(device)}, device_{device} {
    std::uint64_t threshold = UINT64_MAX;  // never give memory back at a synchronisation
    check(cudaMemPoolSetAttribute(get(), cudaMemPoolAttrReleaseThreshold, &threshold));
  }

  /// Lets @p other, a GPU of this process, read and write this pool's memory directly. Does nothing
  /// where the machine has no such path. What communicates between GPUs of one process needs it:
  /// peer access by cudaDeviceEnablePeerAccess does not cover pools.
  void share_with(Device other) {
    int possible = 0;
    if (other == device_) {
      return;
    }
    check(cudaDeviceCanAccessPeer(&possible, other.ordinal, device_.ordinal));
    if (possible != 0) {
      cudaMemAccessDesc access{};
      access.location.type = cudaMemLocationTypeDevice;
      access.location.id = other.ordinal;
      access.flags = cudaMemAccessFlagsProtReadWrite;
      check(cudaMemPoolSetAccess(get(), &access, 1));
    }
  }

  [[nodiscard]] cudaMemPool_t get() const noexcept { return handle_.get(); }
  [[nodiscard]] Device device() const noexcept { return device_; }

 private:
  static cudaMemPool_t make(Device device) {
    ScopedDevice const scope{device};
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = cudaMemHandleTypeNone;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device.ordinal;
    cudaMemPool_t pool = nullptr;
    check(cudaMemPoolCreate(&pool, &properties));
    return pool;
  }

  UniqueHandle<cudaMemPool_t, cudaMemPoolDestroy> handle_;
  Device device_;
};

}  // namespace tandem::cuda
