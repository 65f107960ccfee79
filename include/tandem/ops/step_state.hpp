// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepState: all that a step depends on besides parameters and data.

#include <cstdint>

namespace tandem {

/// Small, so that a device can keep it in its own memory and replay a recorded step.
struct StepState {
  std::uint64_t seed = 0;
  std::int64_t step = 0;       ///< counted from 0
  double learning_rate = 0.0;  ///< after the schedule
  double clip_norm = 0.0;      ///< largest global norm of the gradient; 0: no clipping
  /// Where the loss is a mean over targets: how many the global batch has; -1: a mean over samples.
  double targets = -1.0;
  double counted = -1.0;     ///< what metrics are means over; -1: all samples
  double row_scale[2] = {};  ///< of each copy of the model: 1 over what its loss is a mean of
};

}  // namespace tandem
