// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// simulate_on: a step of an action table on a described machine, whose links messages share.
///
/// Discrete events: devices do their rows in order, messages are flows that divide the ports of the
/// machine fairly at each instant. Where every message has its links for itself, the result is that
/// of simulate() in schedule/time/simulate.hpp. A placement is simulated by
/// placement.hpp; trace.hpp and svg.hpp show a step.
///
/// Reductions are no actions of completed rows: there, behind all passes, a device awaits a sum
/// that went beside them, and here is asked when it went; buckets are those of the costs, which may
/// be whole before a pass ends; and a placement has no rows. When a sum may begin, and in which
/// order if several could, is what rows say: begins_gradients_early().

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/simulate/jobs.hpp>
#include <tandem/plan/simulate/ports.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/plan/simulate/table.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/row_order.hpp>
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

}  // namespace tandem::detail

namespace tandem {

struct SimulationOptions {
  int workers = 1;  ///< all do the same; the machine's devices are the ranks of SimulatedStep::mesh
  int depth = 1;    ///< as simulate(): messages of a link and direction on their way or waiting
  bool shares_links = true;  ///< else each message has its whole link, as if it were alone
};

/// The step of @p table on the devices of @p map, which are those of one worker.
///
/// A message takes bytes / its rate, which changes with who else uses its ports
/// (ports.hpp), and then the latency of its link. Gradients are summed among workers, and
/// copies of stages, when the last backward pass of a stage has ended (GradientBucket), or where
/// ranks would not begin so early, when rows end, in the time that collectives.hpp says.
/// Cost: O(log n) for each of n actions of all workers, and at each instant at which a message
///       begins or ends O(messages on their way).
/// @pre    verify(table, map, ...) finds nothing wrong
/// @param table  with messages: lower() puts them in
/// @throws ContractError  the machine has not so many devices; the map is not one, or not of this
///                        table; the costs are not of this map; an action waits forever
TANDEM_ONCE [[nodiscard]] SimulatedStep simulate_on(Machine const& machine, ActionRows const& table,
                                                    StageMapView const& map,
                                                    SimulatedCosts const& costs,
                                                    SimulationOptions const& options = {});

}  // namespace tandem

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
                                 bool reduces_early, int part) {
  double end = 0;
  for (int worker = 0; worker < step.mesh.groups(Axis::model); ++worker) {
    MeshGroup const devices = step.mesh.group(worker, Axis::model);
    for (int stage = part; stage < map.stages; stage += map.parts()) {
      std::vector<SimulatedAction> const& row =
          step.device[static_cast<std::size_t>(devices[map.device[stage]])].action;
      bool const early = begins_gradients_early(map, false, reduces_early, map.device[stage]);
      end = early || row.empty() ? end : std::max(end, row.back().span.end);
    }
  }
  return end;
}

/// Adds the sums of gradients to a step whose passes are there, as they become whole, or, of copies
/// whose parts do not end from the last to the first, when the rows end; a device does one at a
/// time, beside its passes and messages, with which they share no port.
/// @param all            of all workers, of which the step may have those only that differ
/// @param reduces_early  of row_order() of the rows
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
    double const late = late_rows_end(step, map, reduces_early, part);
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

TANDEM_ONCE void check_costs(SimulatedCosts const& costs, StageMapView const& map) {
  expects(static_cast<int>(costs.stage.size()) == map.stages &&
              static_cast<int>(costs.message_bytes.size()) == map.edges,
          "simulate_on(machine, table, map, costs): give costs for each stage and bytes for each "
          "edge of the map");
  auto const good = [](double number) { return is_finite(number) && number >= 0; };
  bool all = good(costs.update) &&
             std::all_of(costs.message_bytes.begin(), costs.message_bytes.end(), good);
  for (StageLoad const& s : costs.stage) {
    all = all && good(s.forward) && good(s.input_gradient) && good(s.weight_gradient) &&
          is_finite(s.backward) && good(s.kept_bytes) && good(s.working_bytes);
    for (GradientBucket const& bucket : s.gradients) {
      all = all && good(bucket.bytes) && good(bucket.before_end) && good(bucket.row_bytes);
    }
  }
  expects(all,
          "simulate_on(machine, table, map, costs): give seconds and bytes that are finite and "
          "not negative");
}

/// Whether messages cross the map and the table has none.
TANDEM_ONCE bool lacks_messages(ActionRows const& table, StageMapView const& map) {
  for (std::vector<Action> const& row : table) {
    for (Action const& action : row) {
      if (is_message(action.kind)) {
        return false;
      }
    }
  }
  for (int e = 0; e < map.edges; ++e) {
    if (map.crosses(e)) {
      return true;
    }
  }
  return false;
}

/// The step of the first @p simulated of all workers, as it is where the others are like them.
TANDEM_ONCE SimulatedStep simulate_workers(Machine const& machine, ActionRows const& table,
                                           StageMapView const& map, SimulatedCosts const& costs,
                                           SimulationOptions const& options, int simulated) {
  Mesh const model{Axis::model, map.devices};
  Mesh const mesh = Mesh{Axis::data, simulated} * model;
  MachinePorts const ports{machine, mesh.size()};
  SimulatorJobs jobs;
  std::deque<TableJobs> workers;
  for (int w = 0; w < mesh.groups(Axis::model); ++w) {
    workers.emplace_back(jobs, table, map, costs, options.depth, mesh.group(w, Axis::model).first);
  }
  std::vector<PlacementSpan> const span = JobRun{jobs, ports, options.shares_links}.run();

  SimulatedStep step{.mesh = mesh};
  step.device.resize(static_cast<std::size_t>(mesh.size()));
  for (TableJobs const& worker : workers) {
    worker.note(table, span, step);
  }
  bool const reduces_early = row_order(table, map, {.replicas = options.workers}).reduces_early;
  add_reductions(step, machine, map, costs.stage, Mesh{Axis::data, options.workers} * model,
                 reduces_early);
  summarise(step, costs.stage);
  return step;
}

/// @throws ContractError  as simulate_on(), but for actions that wait forever
TANDEM_ONCE void check_simulation(ActionRows const& table, StageMapView const& map,
                                  SimulatedCosts const& costs, SimulationOptions const& options) {
  expects(is_sound(map) && map.devices == devices_of(table) && options.depth >= 0 &&
              options.workers >= 1,
          "simulate_on(machine, table, map, costs, options): give a map with as many devices as "
          "the table has rows, in which every edge leads from a lower stage to a higher one; a "
          "depth of 0 or more and a worker or more");
  check_costs(costs, map);
  expects(!lacks_messages(table, map),
          "simulate_on(machine, table, map, costs): the table has no messages; lower() it first");
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE SimulatedStep simulate_on(Machine const& machine, ActionRows const& table,
                                      StageMapView const& map, SimulatedCosts const& costs,
                                      SimulationOptions const& options) {
  detail::check_simulation(table, map, costs, options);
  return detail::simulate_workers(machine, table, map, costs, options, options.workers);
}

}  // namespace tandem

#endif
