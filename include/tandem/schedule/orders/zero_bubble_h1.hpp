// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ZeroBubbleH1: 1F1B with the weight gradients deferred to where a device would be idle.

#include <algorithm>

#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

namespace detail {

/// A device's row: @p ahead forwards, then I, W once more than @p deferred wait or no forward is
/// left, and F in turn; the weight gradients that are left stand at the end.
template <class Sink>
constexpr void generate_zero_bubble(int device, int ahead, int deferred, int microbatches,
                                    Sink& sink) {
  int const warm_up = std::min(ahead, microbatches);
  int retired = 0;
  for (int i = 0; i < warm_up; ++i) {
    sink(device, pass(ActionKind::forward, device, i));
  }
  for (int i = 0; i < microbatches; ++i) {
    sink(device, pass(ActionKind::input_gradient, device, i));
    if (i + 1 - retired > deferred || warm_up + i >= microbatches) {
      sink(device, pass(ActionKind::weight_gradient, device, retired++));
    }
    if (warm_up + i < microbatches) {
      sink(device, pass(ActionKind::forward, device, warm_up + i));
    }
  }
  while (retired < microbatches) {
    sink(device, pass(ActionKind::weight_gradient, device, retired++));
  }
}

}  // namespace detail

/// Device r: min(p - r, m) forwards, then I, W once more than r are deferred or no forward is left,
/// and F in turn; the weight gradients that are left stand at the end.
///
/// Idle for (p - 1)(F + I - W), a third of 1F1B if F = I = W. At most min(m, p) microbatches are
/// live on each device, and on the last ones most of them wait for W alone.
/// Source: Qi et al., arXiv:2401.10241 (H1)
struct ZeroBubbleH1 : detail::ChainOrder {
  static constexpr char const* name = "zero_bubble_h1";
  static constexpr ScheduleWords words{.type = "Pipeline<ZeroBubbleH1, {count}, "};
  static constexpr bool splits_backward = true;

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    for (int r = 0; r < devices; ++r) {
      detail::generate_zero_bubble(r, devices - r, r, microbatches, sink);
    }
  }
};

}  // namespace tandem
