// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepRunner: whether the actions of a step are walked, or a recording of them is replayed.

#include <tandem/engine/step/state.hpp>

namespace tandem {

/// The primary template walks.
template <class Backend>
class StepRunner {
 public:
  /// @param recordable  whether a walk may be recorded: not where it waits for other ranks
  explicit StepRunner(bool /*recordable*/) {}

  template <class Walk>
  void run(typename Backend::Device& /*device*/, StepKey const& /*key*/, Walk const& walk) {
    walk();
  }
};

}  // namespace tandem
