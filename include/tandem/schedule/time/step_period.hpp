// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// step_period: what a step takes among others, where no barrier stands between them.

#include <cstddef>

#include <tandem/core/config.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/simulate.hpp>

namespace tandem {

/// The rows of so many steps, one behind the other, as one of so many times the microbatches.
/// @param table  passes, with or without messages, of @p microbatches
template <class Table>
TANDEM_COLD ActionRows steps_in_a_row(Table const& table, int microbatches, int steps) {
  ActionRows rows(static_cast<std::size_t>(devices_of(table)));
  for (int d = 0; d < devices_of(table); ++d) {
    for (int step = 0; step < steps; ++step) {
      for (Action action : row_of(table, d)) {
        action.index += step * microbatches;
        rows[static_cast<std::size_t>(d)].push_back(action);
      }
    }
  }
  return rows;
}

/// From the end of a step to the end of the next one under PostValidated<Schedule>, where every
/// guess is right; updates and copies take no time. A device's first backward of a step, before
/// which it awaits the sums of the last one, waits for the last stage's first forward anyway, and
/// so for all devices to have begun the step. ZeroBubbleH2 and ZeroBubbleV lose their idle time at
/// the two ends of a step; where the device that begins first ends last, nothing is gained.
/// @param depth  as simulate()'s
/// @pre   the table passes verify(), and is of one copy of the model
template <class Table>
TANDEM_COLD Ticks step_period(Table const& table, StageMapView const& map, int microbatches,
                              ActionCosts const& costs = {}, int depth = 1) {
  auto const makespan = [&](int steps) {
    return simulate(steps_in_a_row(table, microbatches, steps), map, costs, depth).makespan;
  };
  return makespan(4) - makespan(3);
}

}  // namespace tandem
