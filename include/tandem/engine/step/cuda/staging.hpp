// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Staging: how the host's data reaches a GPU beside the work of other steps. Fetching: how results
/// come back behind the work of their own.

#include <cstddef>
#include <cstring>

#include <cuda_runtime_api.h>

#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/pinned.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem::cuda {

/// Page-locked memory, and the device's memory that it is copied to.
struct Staging {
  Staging(RankDevice& rank_device, std::size_t bytes)
      : host{bytes, rank_device.device}, device{rank_device, bytes} {}

  /// Copies @p count bytes here, and queues on the copy stream that they go to the device.
  /// @pre what read the device's memory last is over
  void stage(RankDevice const& rank_device, void const* data, std::size_t count) {
    if (count > 0) {
      std::memcpy(host.data(), data, count);
      copy_bytes(device.data(), host.data(), count, cudaMemcpyHostToDevice, rank_device.copy);
    }
  }

  PinnedBuffer host;
  Buffer device;
};

/// What the caller gets of a step: queued behind its work, in page-locked memory until the step is
/// collected.
struct Fetching {
  /// Queues that what is at @p from, in the device's memory, comes here, ...
  void fetch(RankDevice const& device, void const* from) const {
    if (bytes > 0) {
      copy_bytes(host.data(), from, bytes, cudaMemcpyDeviceToHost, device.compute);
    }
  }
  /// ... and once it is here gives it to the caller.
  void deliver() const {
    if (bytes > 0) {
      std::memcpy(caller, host.data(), bytes);
    }
  }

  PinnedBuffer host;
  void* caller = nullptr;
  std::size_t bytes = 0;  ///< of the step at work
};

}  // namespace tandem::cuda
