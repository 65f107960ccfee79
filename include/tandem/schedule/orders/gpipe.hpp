// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GPipe: all forwards, then all backwards.

#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// Each device: F0 F1 … B0 B1 …, the backwards too in ascending order.
///
/// Idle for (p - 1)(F + B) of (m + p - 1)(F + B); every microbatch is live at once.
/// Source: Huang et al., arXiv:1811.06965
struct GPipe : detail::ChainOrder {
  static constexpr char const* name = "gpipe";
  static constexpr ScheduleWords words{.type = "Pipeline<GPipe, {count}, "};

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    for (int r = 0; r < devices; ++r) {
      for (int i = 0; i < microbatches; ++i) {
        sink(r, detail::pass(ActionKind::forward, r, i));
      }
      for (int i = 0; i < microbatches; ++i) {
        sink(r, detail::pass(ActionKind::backward, r, i));
      }
    }
  }
};

}  // namespace tandem
