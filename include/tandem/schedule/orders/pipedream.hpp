// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PipeDream: one forward, one backward, and an update after each; weights are stashed.

#include <tandem/schedule/orders/asynchronous_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// Stage k of p goes forward d = p - 1 - k microbatches ahead of its backwards. F(g) reads the
/// current weights and B(g) the same ones, which the stage kept:
///
///   w_k(t + 1) = update(w_k(t), gradient at (w_0(t - p + 1), w_1(t - p + 2), ..., w_{p-1}(t)))
///
///   device 0 | F0 F1 F2 B0 F3 B1 F4 B2 ...     (an update behind each B)
///   device 1 |    F0 F1 B0 F2 B1 F3 B2 ...
///   device 2 |       F0 B0 F1 B1 F2 B2 ...
///
/// Idle: never, once it is filled. Staleness: d updates. Memory: p - k versions of a stage's
/// weights and as many microbatches live.
/// Source: Harlap et al. 2018, arXiv:1806.03377; Narayanan et al., SOSP 2019
struct PipeDream : detail::UpdatesEachMicrobatch<WeightRule::stashed> {
  static constexpr char const* name = "pipedream";
  static constexpr ScheduleWords words{.type = "Pipeline<PipeDream, {count}, ",
                                       .microbatches = "1 microbatch"};
};

/// PipeDream with vertical sync: for each microbatch all stages read the version that the first one
/// has when it enters, and so the gradient is one of a model that there was:
///
///   w(t + 1) = update(w(t), gradient at w(t - p + 1))
///
/// Staleness: p - 1 updates on every stage. Memory: p versions of each stage's weights.
/// Source: Harlap et al. 2018, arXiv:1806.03377, section 3.4
struct PipeDreamVerticalSync : detail::UpdatesEachMicrobatch<WeightRule::vertical> {
  static constexpr char const* name = "pipedream_vertical_sync";
  static constexpr ScheduleWords words{.type = "Pipeline<PipeDreamVerticalSync, {count}, ",
                                       .microbatches = "1 microbatch"};
};

}  // namespace tandem
