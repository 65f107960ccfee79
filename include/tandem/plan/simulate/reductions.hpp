// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// When the gradients of a simulated step are summed among the copies of a stage and the workers.
///
/// These are no actions of completed rows: there, behind all passes, a device awaits a sum that
/// went beside them, and here is asked when it went; buckets are those of the costs, which may be
/// whole before a pass ends; and a placement has no rows. When a sum may begin, and in which order
/// if several could, is what rows say: begins_gradients_early().

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>

namespace tandem::detail {

/// A bucket of a part's gradients, on all devices that have the part.
struct SimulatedReduction {
  int part = 0;
  double ready = 0;
  double seconds = 0;
  double bytes = 0;
};

/// Adds the sums of gradients to a step whose passes are there, as they become whole, or, of copies
/// whose parts do not end from the last to the first, when the rows end; a device does one at a
/// time, beside its passes and messages, with which they share no port.
/// @param all            of all workers, of which the step may have those only that differ
/// @param reduces_early  of row_order() of the rows
TANDEM_ONCE void add_reductions(SimulatedStep& step, Machine const& machine,
                                StageMapView const& map, std::vector<StageLoad> const& stages,
                                Mesh const& all, bool reduces_early);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

/// Two copies of a stage send each other theirs, then all workers sum in the time of
/// gradient_seconds(); the slowest pair of devices counts.
/// @param mesh  of the workers that are simulated
/// @param all   of all workers
TANDEM_ONCE double reduction_seconds(Machine const& machine, StageMapView const& map,
                                     Mesh const& mesh, Mesh const& all, int part,
                                     GradientBucket const& bucket) {
  double swap = 0;
  for (int worker = 0; worker < mesh.groups(Axis::model); ++worker) {
    MeshGroup const devices = mesh.group(worker, Axis::model);
    for (int copy = 1; copy < map.copies; ++copy) {
      swap = std::max(swap,
                      send_seconds(machine, devices[map.device[part]],
                                   devices[map.device[copy * map.parts() + part]], bucket.bytes));
    }
  }
  MeshGroup const same = all.group(0, Axis::data);  // the others have its shape
  double const sum = same.count > 1 ? gradient_seconds(machine, {same.count, same.stride},
                                                       bucket.bytes, bucket.row_bytes)
                                    : 0;
  return swap * (map.copies - 1) + sum;
}

/// When the last backward pass of each part ends, in all copies and workers.
TANDEM_ONCE std::vector<double> gradients_whole(SimulatedStep const& step,
                                                StageMapView const& map) {
  std::vector<double> whole(static_cast<std::size_t>(map.parts()));
  for (SimulatedDevice const& device : step.device) {
    for (auto const& [action, span] : device.action) {
      if (action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient) {
        double& end = whole[static_cast<std::size_t>(action.stage % map.parts())];
        end = std::max(end, span.end);
      }
    }
  }
  return whole;
}

/// When the last device that sums a part's gradients, but not as the part ends, has done its row; 0
/// if there is none.
TANDEM_ONCE double late_rows_end(SimulatedStep const& step, StageMapView const& map,
                                 Mesh const& all, bool reduces_early, int part) {
  StepRules const rules{.replicas = all.extent(Axis::data)};
  double end = 0;
  for (int worker = 0; worker < step.mesh.groups(Axis::model); ++worker) {
    MeshGroup const devices = step.mesh.group(worker, Axis::model);
    for (int stage = part; stage < map.stages; stage += map.parts()) {
      std::vector<SimulatedAction> const& row =
          step.device[static_cast<std::size_t>(devices[map.device[stage]])].action;
      bool const early = begins_gradients_early(map, rules, reduces_early, map.device[stage]);
      end = early || row.empty() ? end : std::max(end, row.back().span.end);
    }
  }
  return end;
}

TANDEM_ONCE void add_reductions(SimulatedStep& step, Machine const& machine,
                                StageMapView const& map, std::vector<StageLoad> const& stages,
                                Mesh const& all, bool reduces_early) {
  if (all.extent(Axis::data) == 1 && map.copies == 1) {
    return;
  }
  std::vector<double> const whole = gradients_whole(step, map);
  std::vector<SimulatedReduction> sums;
  for (int part = map.parts() - 1; part >= 0; --part) {
    auto const at = static_cast<std::size_t>(part);
    double const late = late_rows_end(step, map, all, reduces_early, part);
    for (GradientBucket const& bucket : stages[at].gradients) {
      sums.push_back({part, std::max(late, whole[at] - bucket.before_end),
                      reduction_seconds(machine, map, step.mesh, all, part, bucket),
                      bucket.bytes + bucket.row_bytes});
    }
  }
  std::stable_sort(sums.begin(), sums.end(),
                   [](auto const& a, auto const& b) { return a.ready < b.ready; });
  std::vector<double> free(step.device.size());
  for (SimulatedReduction const& one : sums) {
    if (one.bytes <= 0) {
      continue;
    }
    std::vector<std::pair<std::size_t, int>> with;  // device, stage
    double begin = one.ready;
    for (int worker = 0; worker < step.mesh.groups(Axis::model); ++worker) {
      MeshGroup const devices = step.mesh.group(worker, Axis::model);
      for (int stage = one.part; stage < map.stages; stage += map.parts()) {
        with.emplace_back(devices[map.device[stage]], stage);
        begin = std::max(begin, free[with.back().first]);
      }
    }
    for (auto const& [device, stage] : with) {
      free[device] = begin + one.seconds;
      step.device[device].reduction.push_back(
          {{.kind = ActionKind::reduce_gradient, .stage = static_cast<std::int16_t>(stage)},
           {begin, begin + one.seconds}});
    }
  }
}

}  // namespace tandem::detail

#endif
