// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OneFOneB: one forward, one backward, after a warm-up that fills the pipeline.

#include <algorithm>

#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// Device r: min(p - r - 1, m) forwards, then a forward and a backward in turn, then the backwards
/// that are left.
///
/// Idle for (p - 1)(F + B), as GPipe, but at most min(m, p - r) microbatches are live.
/// Source: Narayanan et al., arXiv:2006.09503 (PipeDream-Flush); Fan et al., DAPPLE
struct OneFOneB : detail::ChainOrder {
  static constexpr char const* name = "one_f_one_b";
  static constexpr ScheduleWords words{.type = "Pipeline<OneFOneB, {count}, "};

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    for (int r = 0; r < devices; ++r) {
      int const warm_up = std::min(devices - r - 1, microbatches);
      for (int i = 0; i < warm_up; ++i) {
        sink(r, detail::pass(ActionKind::forward, r, i));
      }
      for (int i = 0; i < microbatches; ++i) {
        if (warm_up + i < microbatches) {
          sink(r, detail::pass(ActionKind::forward, r, warm_up + i));
        }
        sink(r, detail::pass(ActionKind::backward, r, i));
      }
    }
  }
};

}  // namespace tandem
