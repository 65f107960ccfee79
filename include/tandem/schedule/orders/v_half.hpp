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
/// half of the first one's of 1F1B, and a constant. If F = I = W and m >= p > 2, idle for 3 p - 7
/// passes of half a stage, or 3 p - 4 if p is odd, no more than the tables of its authors' program;
/// 1F1B is for 6 (p - 1).
/// Source: Qi et al., arXiv:2405.15362
struct VHalf : detail::TurningOrder {
  static constexpr char const* name = "v_half";
  static constexpr ScheduleWords words{.type = "Pipeline<VHalf, {count}, ", .tried_chunks = 2};

  template <class Sink>
  static constexpr void generate(int p, int microbatches, Sink& sink) {
    int const gap = p % 2 == 0 ? 3 : 0;  // or a device would have two passes at once
    detail::TurningPattern const pattern{
        {0, 3 * p - 2, 3 * p + gap - 1, 6 * p + gap - 2}, 2, 1, 2 * (p / 2) + 2};
    detail::SqueezedPattern<Sink>{pattern, p, microbatches, sink}.write();
  }
};

}  // namespace tandem
