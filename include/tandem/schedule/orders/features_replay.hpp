// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// FeaturesReplay: backward passes on features that are computed again, with the current weights.

#include <tandem/schedule/orders/asynchronous_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// PipeDream's order of passes with one version of the weights. A stage keeps only what enters it;
/// B(g) computes the forward pass of its old input h again with the weights of now, and takes the
/// gradient there with the error that came back, which is of older weights:
///
///   w_k(t + 1) = update(w_k(t), gradient at (h_k(g), w_k(t)), for the error of stage k + 1)
///
/// Staleness: inputs and errors, of up to p - 1 - k updates; the weights are current. Memory: one
/// version of the weights, the inputs of p - k microbatches, the activations of one. Cost: one more
/// forward pass.
/// Source: Huo et al., NeurIPS 2018, arXiv:1807.04511
struct FeaturesReplay : detail::UpdatesEachMicrobatch<WeightRule::replayed> {
  static constexpr char const* name = "features_replay";
  static constexpr ScheduleWords words{.type = "Pipeline<FeaturesReplay, {count}, ",
                                       .microbatches = "1 microbatch"};
};

}  // namespace tandem
