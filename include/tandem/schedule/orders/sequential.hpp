// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SequentialStages: model parallelism without a pipeline, one microbatch after another.
/// (Sequential is a word of network types.)

#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// Each device: F0 B0 F1 B1 …
///
/// While one device works the others wait: (p - 1) / p of the time. One microbatch is live.
struct SequentialStages : detail::ChainOrder {
  static constexpr char const* name = "sequential";
  static constexpr ScheduleWords words{.type = "ModelParallel<"};

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    for (int r = 0; r < devices; ++r) {
      for (int i = 0; i < microbatches; ++i) {
        sink(r, detail::pass(ActionKind::forward, r, i));
        sink(r, detail::pass(ActionKind::backward, r, i));
      }
    }
  }
};

}  // namespace tandem
