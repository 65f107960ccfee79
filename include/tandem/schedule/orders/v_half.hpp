// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// VHalf: half of 1F1B's activations, on stages that turn back at the last device.

#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/turning_pattern.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// Stages as ZeroBubbleV's. Between VMin and ZeroBubbleV: what goes away from the first device, and
/// gradients that go to the last one, take two passes a device, the others one.
///
/// At most 2 (p / 2) + 2, rounded down inside, microbatches of half a stage are live on a device:
/// half of the first one's of 1F1B, and a constant. If F = I = W and m >= p, idle for (7 p - 4) / 2
/// passes of half a stage, or (7 p - 7) / 2 if p is odd; 1F1B is for 6 (p - 1). The paper's own
/// tables are squeezed further, to half of 1F1B's.
/// Source: Qi et al., arXiv:2405.15362
struct VHalf : detail::TurningOrder {
  static constexpr char const* name = "v_half";
  static constexpr ScheduleWords words{.type = "Pipeline<VHalf, {count}, ", .tried_chunks = 2};

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    int const gap = devices % 2 == 0 ? 3 : 0;  // or a device would have two passes at once
    for (int r = 0; r < devices; ++r) {
      detail::TurningRow<Sink>{devices, microbatches, r, sink}.write(
          {.forward_down = 2 * r,
           .forward_up = 3 * devices - 2 - r,
           .input_up = 3 * devices + gap - 1 + 2 * r,
           .input_down = 6 * devices + gap - 2 - r});
    }
  }
};

}  // namespace tandem
