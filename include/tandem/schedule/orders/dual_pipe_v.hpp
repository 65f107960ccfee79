// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DualPipeV: the steps of DualPipe on one copy of the model, whose stages turn back at the last
/// device.

#include <tandem/schedule/orders/dual_pipe_row.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// Stages as ZeroBubbleV's. In its middle a device does a forward of one of its stages and a whole
/// backward of the other in turn, which a machine may overlap: each hides the other's messages.
///
/// At most 2 p + 1 microbatches of half a stage are live on a device.
/// @pre    2 p microbatches or more
/// Source: deepseek-ai/DualPipe, DualPipeV; the order of ScheduleDualPipeV of PyTorch
struct DualPipeV : detail::TurningOrder {
  static constexpr char const* name = "dual_pipe_v";
  static constexpr ScheduleWords words{
      .type = "Pipeline<DualPipeV, {count}, ",
      .microbatches = "twice as many microbatches as devices, or more",
      .tried_chunks = 2};

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 1 && microbatches >= 2 * devices;
  }

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    for (int r = 0; r < devices; ++r) {
      detail::DualPipeRow<Sink>{r,
                                {.stage = r, .microbatches = microbatches},
                                {.stage = 2 * devices - 1 - r, .microbatches = microbatches},
                                sink}
          .write(devices - 1 - r, r);
    }
  }

  template <int Parts, int Count, bool Fits>
  struct Takes {
    static constexpr bool value = true;
    static_assert(Fits,
                  "Pipeline<DualPipeV, Count, ...>: Count must be the parts of the model or more, "
                  "two parts a device");
  };
};

}  // namespace tandem
