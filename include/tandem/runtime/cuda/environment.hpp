// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What CUDA reads of the environment at a process's first call: hardware_queues(), and
/// prepare_environment(), which says what several ranks need.

#include <algorithm>
#include <cstdlib>

namespace tandem::cuda {

/// At most; CUDA's default is 8.
inline constexpr int most_hardware_queues = 32;

/// As CUDA reads it from the environment at the process's first call, and no later.
[[nodiscard]] inline int hardware_queues() {
  char const* const text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  int const asked = text != nullptr ? std::atoi(text) : 0;
  return asked < 1 ? 8 : std::min(asked, most_hardware_queues);
}

/// Sets what the environment does not say yet: all hardware queues, since streams that share one
/// wait for each other; and that kernels are loaded at the start, since one that is loaded when it
/// is first launched may wait for what runs, such as a message that waits for another GPU.
///
/// Has no effect where the process has made a CUDA call before.
/// @pre no other thread reads or changes the environment meanwhile
inline void prepare_environment() {
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

}  // namespace tandem::cuda
