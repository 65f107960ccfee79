// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Device: the number of a GPU, as an argument; ScopedDevice: for calls that want it current.
///
/// CUDA keeps a current device for each thread. Here it is set by ScopedDevice, around a call that
/// needs it, and put back: no function depends on what its caller's current device is. The threads
/// of ranks, which are the library's own, have theirs current from the start (RankDevice), so that
/// costs nothing there.

#include <string>

#include <cuda_runtime_api.h>

#include <tandem/core/error.hpp>
#include <tandem/runtime/cuda/error.hpp>

namespace tandem::cuda {

/// A GPU, by its place in the order in which CUDA shows them to this process.
struct Device {
  int ordinal = 0;

  friend bool operator==(Device, Device) = default;
};

/// GPUs that this process may use, at least one.
/// @throws CudaError  there is no driver, or no GPU; the message says what to do
[[nodiscard]] inline int device_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count));
  return count;
}

/// Whether device_count() would succeed. Never throws: for tests that skip, and for examples.
[[nodiscard]] inline bool has_device() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  return count > 0;
}

/// @throws Error  the machine has fewer than @p wanted GPUs; @p who, such as "DataParallel<4>",
///                begins the message
inline void require_devices(int wanted, std::string const& who = "this program") {
  int const count = device_count();
  if (count < wanted) {
    throw Error{who + " needs " + std::to_string(wanted) + (wanted == 1 ? " GPU" : " GPUs") +
                " but this machine has " + std::to_string(count) +
                "; use a strategy with fewer ranks, or look at CUDA_VISIBLE_DEVICES"};
  }
}

/// Makes a GPU the calling thread's current one until the end of the scope.
///
/// Cost: one read of a thread's variable if it is current already.
class [[nodiscard]] ScopedDevice {
 public:
  /// @throws Error  the machine has no GPU of that number
  [[nodiscard]] explicit ScopedDevice(Device device) {
    check(cudaGetDevice(&previous_));
    if (previous_ == device.ordinal) {
      return;
    }
    cudaError_t const status = cudaSetDevice(device.ordinal);
    if (status == cudaErrorInvalidDevice) {
      static_cast<void>(cudaGetLastError());
      throw Error{"there is no GPU " + std::to_string(device.ordinal) + ": this machine has " +
                  std::to_string(device_count()) +
                  ", counted from 0; look at nvidia-smi and at CUDA_VISIBLE_DEVICES"};
    }
    check(status);
    changed_ = true;
  }

  ScopedDevice(ScopedDevice const&) = delete;
  ScopedDevice& operator=(ScopedDevice const&) = delete;

  ~ScopedDevice() {
    if (changed_) {
      report(cudaSetDevice(previous_));
    }
  }

 private:
  int previous_ = 0;
  bool changed_ = false;
};

}  // namespace tandem::cuda
