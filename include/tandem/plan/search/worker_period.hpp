// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The periods of pipelines that are not emptied between steps: what a step takes among others.

#include <algorithm>
#include <cstddef>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/simulate/simulator.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/schedule/orders/asynchronous_table.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/step_period.hpp>

namespace tandem::detail {

/// Steps after which a period can be measured: the pipeline is filled, and its stages have found
/// their rhythm.
inline int measured_steps(Asynchrony const& late) {
  int const filling = late.late_steps(0);
  int const rounds = 12 * (late.devices / late.microbatches + 1);
  return std::min(most_unrolled_steps, 2 * (filling + rounds));
}

/// Seconds from step to step at the first stage, over the later half of the steps: its forward
/// passes there are all behind the filling and before the draining.
/// @param first         device of that stage, whose row has measured_steps() steps
/// @param microbatches  of a step
TANDEM_ONCE double period_seconds(SimulatedDevice const& first, int microbatches);

/// step_period() in seconds on a machine, and no less than what a device has to do.
/// @param table  of one step, with messages
TANDEM_ONCE double unbarred_seconds(Machine const& machine, ActionRows const& table,
                                    StageMapView const& map, SimulatedCosts const& costs,
                                    int microbatches);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE double period_seconds(SimulatedDevice const& first, int microbatches) {
  std::vector<double> end;  // of each forward pass of the first stage
  for (SimulatedAction const& one : first.action) {
    if (one.action.kind == ActionKind::forward) {
      end.push_back(one.span.end);
    }
  }
  auto const each = static_cast<std::size_t>(microbatches);
  std::size_t const steps = std::max<std::size_t>(1, end.size() / each / 2);
  return (end.back() - end[end.size() - 1 - steps * each]) / static_cast<double>(steps);
}

TANDEM_ONCE double unbarred_seconds(Machine const& machine, ActionRows const& table,
                                    StageMapView const& map, SimulatedCosts const& costs,
                                    int microbatches) {
  auto const run = [&](int steps) {
    return simulate_on(machine, steps_in_a_row(table, microbatches, steps), map, costs);
  };
  SimulatedStep const longer = run(4);
  SimulatedStep const shorter = run(3);
  double seconds = longer.last_pass - shorter.last_pass;
  for (std::size_t d = 0; d < longer.device.size(); ++d) {
    seconds = std::max(seconds, longer.device[d].busy - shorter.device[d].busy);
  }
  return seconds;
}

}  // namespace tandem::detail

#endif
