// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PipeDream2BW: gradients of several microbatches are added before an update; two versions.

#include <tandem/schedule/orders/asynchronous_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// PipeDream's order of passes, but a step has m >= p microbatches. All of step t read the weights
/// of the step before the last whole one, on every stage:
///
///   w(t + 1) = update(w(t), gradient at w(t - 1))
///
/// Idle: never, once it is filled. Staleness: one update. Memory: 2 versions of the weights, p - k
/// microbatches live.
/// Source: Narayanan et al., ICML 2021, arXiv:2006.09503
struct PipeDream2BW {
  static constexpr char const* name = "pipedream_2bw";
  static constexpr ScheduleWords words{.type = "Pipeline<PipeDream2BW, {count}, ",
                                       .microbatches = "as many microbatches as devices, or more"};

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 1 && microbatches >= devices;
  }
  static constexpr Asynchrony asynchrony(int devices, int microbatches) {
    return {
        .devices = devices, .microbatches = microbatches, .weights = WeightRule::double_buffered};
  }

  template <int Parts, int Count, bool Fits>
  struct Takes {
    static constexpr bool value = true;
    static_assert(Fits,
                  "Pipeline<PipeDream2BW, Count, ...>: Count must be the parts of the model or "
                  "more, so that two versions of the weights suffice");
  };
};

}  // namespace tandem
