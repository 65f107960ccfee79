// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DevicesThere of Cuda: the GPUs that the process sees.

#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/train/options/devices_there.hpp>

namespace tandem {

template <class Kernels, class Precision>
struct DevicesThere<BasicCuda<Kernels, Precision>> {
  /// @throws CudaError  there is no driver
  [[nodiscard]] static int of_this_process() { return cuda::device_count(); }
};

}  // namespace tandem
