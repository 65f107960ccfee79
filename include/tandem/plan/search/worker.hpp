// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkerStrategy, WorkerStep: how the devices of one data-parallel worker share a minibatch, and
/// what a step then takes, by simulation of the schedule's own action table on the machine.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
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

namespace tandem {

/// One way to cut a network, with a name of make_schedule(), of which "sequential" is
/// ModelParallel, or one that is none: `placed`, see worker_placed.hpp. Devices may share the
/// layers of each stage, see worker_tensor.hpp, or its images, see worker_tiles.hpp.
struct WorkerStrategy {
  static constexpr char const* placed = "placed";

  std::string schedule = SequentialStages::name;
  int devices = 1;
  int microbatches = 1;
  int chunks = 1;              ///< stages a device, of a schedule that takes any number of them
  bool recomputes = false;     ///< Checkpoint<Boundaries>: keeps what goes from stage to stage only
  int slices = 1;              ///< devices that share each layer of a stage: TensorParallel
  bool sequence_rows = false;  ///< these have their rows of what stands between: SequenceRows
  int time_chunks = 1;         ///< of each sequence, one a pass: Chunks
  Extent2d tiles{};            ///< of images, one of each for these devices: SpatialParallel
  bool post_validated = false;  ///< PostValidated<Schedule>: no barrier between steps
  int every = 0;  ///< Checkpoint<Every<k>>, where all layers are one stage; 0: all is kept

  /// Whether devices hold two copies of the model.
  [[nodiscard]] bool keeps_two_copies() const { return detail::has_two_copies(schedule); }
  [[nodiscard]] bool is_placed() const { return schedule == placed; }
  /// Whether all devices share all layers.
  [[nodiscard]] bool is_tensor() const { return slices > 1 && slices == devices; }
  /// Whether these have tiles of images, and layers whole.
  [[nodiscard]] bool has_tiles() const { return tiles != Extent2d{}; }
  /// In how many a layer is dealt out that is.
  [[nodiscard]] int layer_slices() const { return has_tiles() ? 1 : slices; }
  /// Devices over which the network is cut.
  [[nodiscard]] int cut_devices() const { return devices / slices; }
  /// Whether devices have other layers or shapes than the network.
  [[nodiscard]] bool rewrites() const { return slices > 1 || time_chunks > 1; }
  /// Of the network through a stage, in a step.
  [[nodiscard]] int passes() const { return microbatches * time_chunks; }
  /// Of one copy of the network.
  [[nodiscard]] int stages() const {
    detail::NamedSchedule const* const found = detail::find_schedule(schedule);
    return cut_devices() * (found != nullptr ? detail::chunks_of(*found, chunks) : chunks);
  }
  /// How late its gradients are; off where they are not.
  [[nodiscard]] Asynchrony asynchrony() const {
    return detail::asynchrony_named(schedule, cut_devices(), microbatches);
  }
  /// Whether forward passes are computed again, by whole stages.
  [[nodiscard]] bool repeats_forward() const {
    Asynchrony const late = asynchrony();
    return recomputes || (late.on() && late.weights == WeightRule::replayed);
  }

  friend bool operator==(WorkerStrategy const&, WorkerStrategy const&) = default;
};

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
TANDEM_ONCE [[nodiscard]] WorkerStep worker_step(WorkerStrategy const& worker,
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

TANDEM_ONCE std::string lacks_devices(WorkerStrategy const& worker) {
  return "the machine has fewer than " + std::to_string(worker.devices) + " devices";
}

TANDEM_ONCE WorkerTable worker_table(WorkerStrategy const& worker) {
  RuntimeMap const map = make_map(worker.schedule, worker.cut_devices(), worker.chunks);
  Asynchrony const late = worker.asynchrony();
  int const steps = late.on() ? measured_steps(late) : 0;
  return {map, lower(chunked(make_schedule(worker.schedule, worker.cut_devices(),
                                           worker.microbatches, worker.chunks, steps),
                             worker.time_chunks),
                     map)};
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE WorkerStep worker_step(WorkerStrategy const& worker, CostGraph const& graph,
                                   Machine const& machine, double bytes_of_parameter,
                                   std::vector<int> const& sizes) {
  std::vector<double> const times = detail::part_times(graph);
  WorkerStep step;
  int const count = worker.stages();
  if (static_cast<std::size_t>(count) > times.size()) {
    step.problem = "the network has only " + std::to_string(times.size()) + " parts";
    return step;
  }
  int const devices = worker.cut_devices();
  if (!machine.has(devices)) {
    step.problem = detail::lacks_devices(worker);
    return step;
  }
  step.sizes = sizes.empty() ? partition_chain(times, count).sizes : sizes;
  std::vector<detail::ChainStage> const stages =
      detail::chain_stages(graph, step.sizes, worker.passes());

  detail::WorkerTable const made = detail::worker_table(worker);
  RuntimeMap const& map = made.map;
  ActionRows const& table = made.table;
  Asynchrony const late = worker.asynchrony();
  bool const again = worker.repeats_forward();
  SimulatedCosts const costs = detail::stage_costs(map, stages, again);
  SimulatedStep const simulated =
      simulate_on(machine, table, map, costs, {.depth = worker.time_chunks});

  step.seconds = late.on() ? detail::period_seconds(simulated.device[0], late.microbatches)
                 : worker.post_validated
                     ? detail::unbarred_seconds(machine, table, map, costs, worker.microbatches)
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
        busy += (stage.forward * (again ? 2 : 1) + stage.backward) * worker.passes() / map.copies;
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
