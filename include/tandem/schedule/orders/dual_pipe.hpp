// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DualPipe: two pipelines in opposite directions, each device's forward of one beside the backward
/// of the other.

#include <algorithm>

#include <tandem/schedule/orders/dual_pipe_row.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// Stages as Chimera's: two copies of the model, each for half of the microbatches. In its middle a
/// device does a forward of one copy and a whole backward of the other in turn, which a machine may
/// overlap: each hides the other's messages.
///
/// At most p + 1 microbatches are live on a device.
/// @pre    devices and microbatches are even, and there are 2 p microbatches or more
/// Source: DeepSeek-AI, arXiv:2412.19437, and deepseek-ai/DualPipe
struct DualPipe {
  static constexpr char const* name = "dual_pipe";
  static constexpr ScheduleWords words{
      .type = "Pipeline<DualPipe, {count}, ",
      .devices = "an even number",
      .microbatches = "an even number of microbatches, twice as many as devices or more",
      .least_devices = 2,
      .multiple_of_devices = 2};
  static constexpr int chunks = 1;
  static constexpr int copies = 2;
  static constexpr bool splits_backward = true;

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 2 && devices % 2 == 0 && microbatches % 2 == 0 && microbatches >= 2 * devices;
  }

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    using Row = detail::DualPipeRow<Sink>;
    int const each = microbatches / 2;
    for (int r = 0; r < devices; ++r) {
      typename Row::Direction const down{.stage = r, .microbatches = each};
      typename Row::Direction const up{
          .stage = 2 * devices - 1 - r, .first = each, .microbatches = each};
      bool const near = r < devices / 2;  // to where the first copy begins
      int const before = std::min(r, devices - 1 - r);
      Row{r, near ? down : up, near ? up : down, sink}.write(devices / 2 - 1 - before, before);
    }
  }

  template <int Parts, int Count, bool Fits>
  struct Takes {
    static constexpr bool value = true;
    static_assert(Fits,
                  "Pipeline<DualPipe, Count, ...>: the parts of the model and Count must be even, "
                  "and Count twice as many as the parts or more");
  };
};

}  // namespace tandem
