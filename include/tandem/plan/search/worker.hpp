// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkerStep: what a step of one data-parallel worker, a strategy of one replica, takes on its
/// devices, by simulation of the schedule's own action table on the machine.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/chain_partition.hpp>
#include <tandem/plan/cost/chain_stages.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/simulate/chain.hpp>
#include <tandem/plan/simulate/simulator.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/schedule/orders/all.hpp>
#include <tandem/schedule/orders/asynchronous_table.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/rules/weight_places.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/step_period.hpp>
#include <tandem/strategy/cut/checkpoint_rule.hpp>
#include <tandem/strategy/value.hpp>

namespace tandem {

/// Of one worker, without the reduction of gradients among workers.
struct WorkerStep {
  double seconds = 0;
  double idle = 0;                       ///< share of the devices' time
  double ties = 0;                       ///< seconds, behind it, of sums over shared weights
  double copies = 0;                     ///< seconds, behind it, of what an update may take back
  double memory = 0;                     ///< bytes of the fullest device
  std::vector<int> sizes{};              ///< top-level parts of each stage
  std::vector<int> placement{};          ///< device of each node, where they are placed
  std::vector<double> done{};            ///< of each device: when its gradients are whole
  std::vector<double> gradient_bytes{};  ///< of each device, as they are summed
  std::vector<double> row_bytes{};       ///< of each device: of GradientRows
  /// Of each stage, where devices share layers or a pass has a chunk of time.
  std::vector<detail::ChainStage> stages{};
  std::string problem{};  ///< why it cannot be; else empty
};

namespace detail {

/// A pipeline, or another schedule, over so many devices, its parts of the network not chosen yet.
TANDEM_ONCE StrategyValue chain_worker(std::string_view schedule, int devices, int microbatches = 1,
                                       int stages_a_device = 1);

/// A worker whose nodes are on so many devices, wherever.
TANDEM_ONCE StrategyValue placed_worker(int devices);

/// The actions of a worker's devices, messages included.
struct WorkerTable {
  RuntimeMap map{};
  ActionRows table{};
};

}  // namespace detail

/// The step of a worker that has the first devices of the machine for itself.
///
/// Stages are cut so that the heaviest is as light as it can be. The step is that of simulate_on():
/// each message has its own bytes and the link between its two devices, inside a node or between
/// nodes, and those that use a port at the same time share it. Where gradients are late, the step
/// is the period of the filled pipeline; where steps have no barrier, step_period() on the machine.
/// Not counted: the update, sums and exchanges of gradients, and other workers, which share ports
/// with this one only where nodes do not hold whole workers.
/// Memory: weights, as many versions as there are, and the like, and the outputs of all
/// microbatches that are live at once; what a device needs for a moment, its arenas and workspaces,
/// is not counted.
/// @param graph               costs of one pass: of a microbatch, or a chunk of time of it
/// @param bytes_of_parameter  that a device holds for each of parameter_bytes, as PlacementTask
/// @param sizes               top-level parts of each stage; none: see above
/// @pre    the worker has a schedule, and its devices share no layers
/// @throws ContractError  the schedule does not exist, or check_machine() refuses the machine
TANDEM_ONCE [[nodiscard]] WorkerStep worker_step(StrategyValue const& worker,
                                                 CostGraph const& graph, Machine const& machine,
                                                 double bytes_of_parameter,
                                                 std::vector<int> const& sizes = {});

}  // namespace tandem

#if TANDEM_BODIES

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

/// step_period() in seconds on a machine, and no less than what a device has to do.
/// @param table  of one step, with messages
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

TANDEM_ONCE StrategyValue chain_worker(std::string_view schedule, int devices, int microbatches,
                                       int stages_a_device) {
  NamedSchedule const* const found = find_schedule(schedule);
  Asynchrony const late = asynchrony_named(schedule, devices, microbatches);
  bool const replays = late.on() && late.weights == WeightRule::replayed;
  int const parts = devices * (found != nullptr ? chunks_of(*found, stages_a_device) : 1);
  return {.batching = {.microbatches = microbatches},
          .cut = parts > 1 ? CutKind::balanced : CutKind::whole,
          .parts = parts,
          .schedule = std::string{schedule},
          .stages_a_device = stages_a_device,
          .checkpoint = {replays ? CheckpointRule::boundaries : CheckpointRule::none}};
}

TANDEM_ONCE StrategyValue placed_worker(int devices) {
  return {.cut = CutKind::placed, .parts = devices};
}

TANDEM_ONCE std::string lacks_devices(StrategyValue const& worker) {
  return "the machine has fewer than " + std::to_string(worker.replica_devices()) + " devices";
}

TANDEM_ONCE WorkerTable worker_table(StrategyValue const& worker) {
  RuntimeMap const map = make_map(worker.schedule, worker.devices(), worker.stages_a_device);
  Asynchrony const late = worker.asynchrony();
  int const steps = late.on() ? measured_steps(late) : 0;
  return {map,
          lower(chunked(make_schedule(worker.schedule, worker.devices(),
                                      worker.batching.microbatches, worker.stages_a_device, steps),
                        worker.batching.chunks),
                map)};
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE WorkerStep worker_step(StrategyValue const& worker, CostGraph const& graph,
                                   Machine const& machine, double bytes_of_parameter,
                                   std::vector<int> const& sizes) {
  std::vector<double> const times = detail::part_times(graph);
  WorkerStep step;
  int const count = worker.parts;
  if (static_cast<std::size_t>(count) > times.size()) {
    step.problem = "the network has only " + std::to_string(times.size()) + " parts";
    return step;
  }
  int const devices = worker.devices();
  if (!machine.has(devices)) {
    step.problem = detail::lacks_devices(worker);
    return step;
  }
  step.sizes = sizes.empty() ? partition_chain(times, count).sizes : sizes;
  std::vector<detail::ChainStage> const stages =
      detail::chain_stages(graph, step.sizes, worker.batching.passes());

  detail::WorkerTable const made = detail::worker_table(worker);
  RuntimeMap const& map = made.map;
  ActionRows const& table = made.table;
  Asynchrony const late = worker.asynchrony();
  bool const again = worker.repeats_stages();
  SimulatedCosts const costs = detail::stage_costs(map, stages, again);
  SimulatedStep const simulated =
      simulate_on(machine, table, map, costs, {.depth = worker.batching.chunks});

  step.seconds = late.on() ? detail::period_seconds(simulated.device[0], late.microbatches)
                 : worker.post_validated ? detail::unbarred_seconds(machine, table, map, costs,
                                                                    worker.batching.microbatches)
                                         : simulated.last_pass;
  double const copied = worker.post_validated ? bytes_of_parameter - 1 : 0;  // all but gradients
  for (int d = 0; d < devices; ++d) {
    auto const device = static_cast<std::size_t>(d);
    WeightPlaces const places{.rule = late, .stage = d};
    double busy = 0;
    double parameters = 0;
    double dense = 0;
    double rows = 0;
    double kept = 0;
    for (int s = 0; s < static_cast<int>(map.device.size()); ++s) {
      if (map.device[static_cast<std::size_t>(s)] == d) {
        detail::ChainStage const& stage = stages[static_cast<std::size_t>(s) % stages.size()];
        int const live = late.on() ? places.live() : live_microbatches(table, map, s);
        busy += (stage.forward * (again ? 2 : 1) + stage.backward) * worker.batching.passes() /
                map.copies;
        parameters += stage.parameter_bytes;
        dense += stage.dense_bytes;
        rows += stage.row_bytes;
        kept += again ? stage.sent_bytes * live + stage.kept_bytes : stage.kept_bytes * live;
      }
    }
    step.idle += std::max(0.0, 1 - busy / step.seconds) / devices;
    step.done.push_back(late.on() ? step.seconds : simulated.device[device].last_pass);
    step.copies = std::max(step.copies, 2 * copied * dense / machine.memory_bandwidth);
    step.gradient_bytes.push_back(dense);
    step.row_bytes.push_back(rows);
    double const by_rows = bytes_of_parameter >= 1 ? parameters - dense - rows : 0;  // not taken
    step.memory = std::max(step.memory, (bytes_of_parameter + places.count() - 1) * parameters -
                                            by_rows + copied * dense + kept);
  }
  if (worker.rewrites()) {
    step.stages = stages;
  }
  return step;
}

}  // namespace tandem

#endif
