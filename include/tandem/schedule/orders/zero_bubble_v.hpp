// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ZeroBubbleV: two stages a device, down the devices and back up, with weight gradients apart.

#include <string_view>

#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/turning_pattern.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

namespace detail {

/// Device @p r's row of 2 p - 1 microbatches or more: F, I and W of the stage that goes down, f, i
/// and w of the other one, each in ascending order of microbatches.
template <class Sink>
constexpr void zero_bubble_v_row(int p, int m, int r, Sink& sink) {
  constexpr std::string_view letters = "FIWfiw";
  int next[6] = {};
  auto const repeat = [&](int times, std::string_view passes) {
    for (int i = 0; i < times; ++i) {
      for (char const letter : passes) {
        auto const one = letters.find(letter);
        sink(r, pass(split_passes[one % 3], one < 3 ? r : 2 * p - 1 - r, next[one]++));
      }
    }
  };
  repeat(2 * (p - r) - 1, "F");
  repeat(r, "fF");
  repeat(p - r, "fiw");
  repeat(m - 2 * p + 1 + r, "FIWfiw");
  repeat(p - 1 - r, "IWfiw");
  repeat(r, "Ii");
  repeat(p - r, "IW");
  repeat(r, "w");
  repeat(r, "W");
}

}  // namespace detail

/// Device r has the stages r and 2 p - 1 - r, each half of a 1F1B stage: the model goes down the
/// devices and back up, so that the first device computes the loss.
///
/// If F = I = W no order takes less: if m >= p, a device is idle for p - 1 passes of half a stage,
/// if m >= 2 p - 1 at its ends only; 1F1B is for 6 (p - 1). At most 2 p microbatches of half a
/// stage are live on a device, as much as on the first one of 1F1B.
/// Source: Qi et al., arXiv:2401.10241, section 6; ScheduleZBVZeroBubble of PyTorch if m >= 2 p - 1
struct ZeroBubbleV : detail::TurningOrder {
  static constexpr char const* name = "zero_bubble_v";
  static constexpr ScheduleWords words{.type = "Pipeline<ZeroBubbleV, {count}, ",
                                       .tried_chunks = 2};

  template <class Sink>
  static constexpr void generate(int p, int microbatches, Sink& sink) {
    detail::TurningPattern const pattern{{0, 6 * p - 5, 6 * p - 4, 12 * p - 9}, 4, 2, 2 * p};
    if (microbatches < 2 * p - 1) {
      detail::SqueezedPattern<Sink>{pattern, p, microbatches, sink}.write();
      return;
    }
    for (int r = 0; r < p; ++r) {
      detail::zero_bubble_v_row(p, microbatches, r, sink);
    }
  }
};

}  // namespace tandem
