// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// hardware_queues(): how many of a GPU's queues a process's streams are dealt to, and asking for
/// all of them.

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

/// Asks for all, unless the environment says how many: streams that share a queue wait for each
/// other, so that a message that waits for another GPU holds up what its own has to do.
///
/// Has no effect where the process has made a CUDA call before.
/// @pre no other thread reads or changes the environment meanwhile
inline void ask_for_hardware_queues() { ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

}  // namespace tandem::cuda
