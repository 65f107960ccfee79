// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ZeroBubbleH2: as ZeroBubbleH1, with so many forwards ahead that no device waits between passes.

#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>
#include <tandem/schedule/orders/zero_bubble_h1.hpp>

namespace tandem {

/// Device r: min(2 (p - r) - 1, m) forwards, then I, W once more than 2 r are deferred or no
/// forward is left, and F in turn; the weight gradients that are left stand at the end.
///
/// Idle for (p - 1) max(F, F + I - 2 W) in a step of m >= 2 p - 1, of that between its passes for
/// (p - 1 - r) max(0, F + I - 2 W): never if F = I = W. In a step of fewer microbatches it is idle
/// for max(p - 1, 2 p - 1 - m) F if F = I = W, which no order makes less. The rest is before its
/// first pass and behind its last one, since a step has its sums and updates behind all passes: the
/// norm of the gradients is known before any update, unless it is PostValidated<ZeroBubbleH2>. At
/// most min(m, 2 p - 1) microbatches are live on each device, twice as many as in H1.
/// Source: Qi et al., arXiv:2401.10241 (H2)
struct ZeroBubbleH2 : detail::ChainOrder {
  static constexpr char const* name = "zero_bubble_h2";
  static constexpr ScheduleWords words{.type = "Pipeline<ZeroBubbleH2, {count}, "};
  static constexpr bool splits_backward = true;

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    for (int r = 0; r < devices; ++r) {
      detail::generate_zero_bubble(r, 2 * (devices - r) - 1, 2 * r, microbatches, sink);
    }
  }
};

}  // namespace tandem
