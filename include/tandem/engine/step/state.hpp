// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepBatch: the data of one step; StepResult: what it gives back.

#include <cstdint>

#include <tandem/ops/step_state.hpp>

namespace tandem {

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
