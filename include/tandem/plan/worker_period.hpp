// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The period of a pipeline that is never emptied: what a step takes once it is filled.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <tandem/strategy/action_table.hpp>
#include <tandem/strategy/asynchronous_table.hpp>
#include <tandem/strategy/asynchrony.hpp>
#include <tandem/strategy/timeline.hpp>

namespace tandem::detail {

inline Ticks nanoseconds(double seconds) { return static_cast<Ticks>(std::llround(seconds * 1e9)); }

/// Steps after which a period can be measured: the pipeline is filled, and its stages have found
/// their rhythm.
inline int measured_steps(Asynchrony const& late) {
  int const filling = late.late_steps(0);
  int const rounds = 12 * (late.devices / late.microbatches + 1);
  return std::min(most_unrolled_steps, 2 * (filling + rounds));
}

/// Seconds from step to step at the first stage, over the later half of the steps: its forward
/// passes there are all behind the filling and before the draining.
/// @param table  of measured_steps() steps, and its timeline in nanoseconds
template <class = void>  // compiled where it is called, not by every include
double period_seconds(ActionRows const& table, TimelineRows const& timeline,
                      Asynchrony const& late) {
  std::vector<Ticks> end;  // of each forward pass of the first stage
  for (std::size_t i = 0; i < table[0].size(); ++i) {
    if (table[0][i].kind == ActionKind::forward) {
      end.push_back(timeline.action[0][i].end);
    }
  }
  auto const microbatches = static_cast<std::size_t>(late.microbatches);
  std::size_t const steps = std::max<std::size_t>(1, end.size() / microbatches / 2);
  std::size_t const last = end.size() - 1;
  return static_cast<double>(end[last] - end[last - steps * microbatches]) * 1e-9 /
         static_cast<double>(steps);
}

}  // namespace tandem::detail
