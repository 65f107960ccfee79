// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// VMin: the least activations of a pipeline whose stages turn back at the last device.

#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/turning_pattern.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// Stages as ZeroBubbleV's. Each pass follows the same one of the device before at once, so that a
/// microbatch ends as early as it can.
///
/// At most 2 ((p + 4) / 3), rounded down inside, microbatches of half a stage are live on a device:
/// a third of the first one's of 1F1B, and a constant. If F = I = W and m >= p > 2, idle for 4 p -
/// 5 passes of half a stage, 2 fewer if p is a multiple of 3; 1F1B is for 6 (p - 1).
/// Source: Qi et al., arXiv:2405.15362
struct VMin : detail::TurningOrder {
  static constexpr char const* name = "v_min";
  static constexpr ScheduleWords words{.type = "Pipeline<VMin, {count}, ", .tried_chunks = 2};

  template <class Sink>
  static constexpr void generate(int p, int microbatches, Sink& sink) {
    int const gap = p % 3 == 0 ? 2 : 0;  // or a device would have two passes at once
    detail::TurningPattern const pattern{
        {0, 2 * p - 1, 2 * p + gap, 4 * p + gap - 1}, 1, 1, 2 * ((p + 4) / 3)};
    detail::SqueezedPattern<Sink>{pattern, p, microbatches, sink}.write();
  }
};

}  // namespace tandem
