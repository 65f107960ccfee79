// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WeightPrediction: forward passes with the weights that the backward pass is expected to have.

#include <tandem/schedule/orders/asynchronous_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// PipeDream's order of passes with one version of the weights. F(g) of stage k reads a prediction,
/// from the current weights w and the optimizer's momentum v, over the d = p - 1 - k updates until
/// B(g), which reads the current weights:
///
///   F: w - learning rate * d * v;   w_k(t + 1) = update(w_k(t), gradient at w_k(t))
///
/// Staleness: that of the prediction's error. Memory: the weights and one buffer for what is
/// predicted, p - k microbatches live.
/// Source: Chen et al. 2018, SpecTrain, arXiv:1809.02839
struct WeightPrediction : detail::UpdatesEachMicrobatch<WeightRule::predicted> {
  static constexpr char const* name = "weight_prediction";
  static constexpr ScheduleWords words{.type = "Pipeline<WeightPrediction, {count}, ",
                                       .microbatches = "1 microbatch"};
};

}  // namespace tandem
