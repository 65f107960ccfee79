// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PipelinedModel: pipelined model parallelism with delayed errors and recomputation (PMP).

#include <tandem/schedule/orders/asynchronous_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// As FeaturesReplay, but each stage goes forward d = 2 (p - 1 - k) microbatches ahead: in a time
/// slot every device does one forward and one backward pass, and none waits for what another does
/// in that slot.
///
///   w_k(t + 1) = update(w_k(t), gradient at (h_k(g), w_k(t)), for the error of stage k + 1)
///
/// Staleness: inputs and errors, of up to 2 (p - 1 - k) updates. Memory: one version of the
/// weights, the inputs of 2 (p - 1 - k) + 1 microbatches, the activations of one. Cost: one more
/// forward pass. Source: Xu, Huo and Huang, CVPR 2020, arXiv:1909.02625 (layer-wise staleness; here
/// one forward and one backward a slot)
struct PipelinedModel : detail::UpdatesEachMicrobatch<WeightRule::replayed, 2> {
  static constexpr char const* name = "pmp";
  static constexpr ScheduleWords words{.type = "Pipeline<PipelinedModel, {count}, ",
                                       .microbatches = "1 microbatch"};
};

}  // namespace tandem
