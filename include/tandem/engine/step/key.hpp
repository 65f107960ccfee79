// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepKey: what a step's program depends on, besides the numbers that it works with.

#include <tandem/core/shape.hpp>

namespace tandem {

/// Steps with the same key queue the same work.
struct StepKey {
  int samples = 0;              ///< of the global batch
  Times time{};                 ///< rows of each sample, where these are sequences
  bool lengths = false;         ///< some rows of some samples do not count
  bool second_lengths = false;  ///< the same of the second input
  int position = -1;            ///< rows before these, where a sequence comes in pieces
  bool training = false;
  bool targets = false;
  bool outputs = false;
  bool exchanges = false;  ///< two models are averaged
  bool clips = false;      ///< gradients may be scaled down to a largest norm

  friend bool operator==(StepKey const&, StepKey const&) = default;
};

}  // namespace tandem
