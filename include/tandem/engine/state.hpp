// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepState and StepBatch: what changes from step to step; StepResult: what a step gives back.

#include <cstdint>

namespace tandem {

/// All that a step depends on besides parameters and data: small, so that a device can keep it in
/// its own memory and replay a recorded step.
struct StepState {
  std::uint64_t seed = 0;
  std::int64_t step = 0;       ///< counted from 0
  double learning_rate = 0.0;  ///< after the schedule
  double clip_norm = 0.0;      ///< largest global norm of the gradient; 0: no clipping
};

/// One global batch, the same on every rank: each takes its own microbatches of it.
template <class T, class Target>
struct StepBatch {
  T const* x = nullptr;             ///< (size, input)
  Target const* targets = nullptr;  ///< (size, targets a sample); null: predict only
  T* outputs = nullptr;             ///< (size, output), written if not null
  int size = 0;
};

/// Sums over the global batch, the same on every rank.
struct StepResult {
  double loss = 0.0;           ///< mean over the samples
  double metric = 0.0;         ///< mean over the samples
  double gradient_norm = 0.0;  ///< before clipping; 0 where clipping is off
  int non_finite = -1;         ///< first microbatch whose loss is not finite; the update is skipped
  int samples = 0;
};

}  // namespace tandem
