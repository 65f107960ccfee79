// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DevicesThere: how many ranks of a backend a process has devices for, where nothing is said.

#include <tandem/runtime/host/cpus.hpp>

namespace tandem {

/// On Host a rank is a thread, and wants a CPU. GPUs are counted in train/options/cuda/.
template <class Backend>
struct DevicesThere {
  [[nodiscard]] static int of_this_process() { return host::usable_cpus(); }
};

}  // namespace tandem
