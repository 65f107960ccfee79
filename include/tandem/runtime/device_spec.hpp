// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DeviceSpec: which device of the machine a rank gets.

namespace tandem {

struct DeviceSpec {
  int threads = 1;  ///< of a CPU device
  int ordinal = 0;  ///< of a GPU
};

}  // namespace tandem
