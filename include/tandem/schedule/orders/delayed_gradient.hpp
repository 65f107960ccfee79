// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DelayedGradient: decoupled parallel backpropagation with delayed gradients (DDG).

#include <tandem/schedule/orders/asynchronous_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// Stage k of p applies at t the gradient of microbatch t - (p - 1 - k), through the activations
/// and the weights that its forward pass had:
///
///   w_k(t + 1) = update(w_k(t), gradient of stage k for microbatch t - (p - 1 - k))
///
/// Numbered by microbatches instead of iterations that is PipeDream's equation, and the tables are
/// equal. DDG keeps the graphs of old microbatches where PipeDream keeps weights.
/// Staleness: p - 1 - k updates. Memory: p - k versions of a stage's weights, as many microbatches.
/// Source: Huo et al., ICML 2018, arXiv:1804.10574
struct DelayedGradient : detail::UpdatesEachMicrobatch<WeightRule::stashed> {
  static constexpr char const* name = "delayed_gradient";
  static constexpr ScheduleWords words{.type = "Pipeline<DelayedGradient, {count}, ",
                                       .microbatches = "1 microbatch"};
};

}  // namespace tandem
