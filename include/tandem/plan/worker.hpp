// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkerStrategy, WorkerStep: how the devices of one data-parallel worker share a minibatch, and
/// what a step then takes, by simulation of the schedule's own action table.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/plan/chain_partition.hpp>
#include <tandem/plan/cost_graph.hpp>
#include <tandem/plan/machine.hpp>
#include <tandem/plan/worker_period.hpp>
#include <tandem/strategy/asynchrony.hpp>
#include <tandem/strategy/live_microbatches.hpp>
#include <tandem/strategy/lower_table.hpp>
#include <tandem/strategy/make_schedule.hpp>
#include <tandem/strategy/makespan.hpp>
#include <tandem/strategy/weight_places.hpp>

namespace tandem {

/// One way to cut a network, with a name of make_schedule(), of which "sequential" is
/// ModelParallel, or "placed": see worker_placed.hpp.
struct WorkerStrategy {
  std::string schedule = "sequential";
  int devices = 1;
  int microbatches = 1;
  int chunks = 1;           ///< stages a device, of "interleaved"
  bool recomputes = false;  ///< Checkpoint<Boundaries>: keeps what goes from stage to stage only

  /// Whether devices hold two copies of the model.
  [[nodiscard]] bool keeps_two_copies() const { return detail::has_two_copies(schedule); }
  [[nodiscard]] bool is_placed() const { return schedule == "placed"; }
  /// How late its gradients are; off where they are not.
  [[nodiscard]] Asynchrony asynchrony() const {
    return detail::asynchrony_named(schedule, devices, microbatches);
  }
  /// Whether forward passes are computed again.
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
  double memory = 0;                     ///< bytes of the fullest device
  std::vector<int> sizes{};              ///< top-level parts of each stage
  std::vector<int> placement{};          ///< device of each node, where they are placed
  std::vector<double> done{};            ///< of each device: when its gradients are whole
  std::vector<double> gradient_bytes{};  ///< of each device
  std::string problem{};                 ///< why it cannot be; else empty
};

namespace detail {

/// Consecutive parts of a network.
struct ChainStage {
  double forward = 0;
  double backward = 0;
  double parameter_bytes = 0;
  double kept_bytes = 0;  ///< outputs of a microbatch
  double sent_bytes = 0;  ///< to later stages
};

template <class = void>
std::vector<double> part_times(CostGraph const& graph) {
  std::vector<double> times;
  for (CostNode const& node : graph.node) {
    times.resize(std::max(times.size(), static_cast<std::size_t>(node.part) + 1));
    times[static_cast<std::size_t>(node.part)] += node.time();
  }
  return times;
}

template <class = void>
std::vector<ChainStage> chain_stages(CostGraph const& graph, std::vector<int> const& sizes) {
  std::vector<ChainStage> stages(sizes.size());
  std::vector<std::size_t> stage_of(graph.node.size());
  std::size_t stage = 0;
  int end = sizes[0];
  for (std::size_t n = 0; n < graph.node.size(); ++n) {
    CostNode const& node = graph.node[n];
    while (node.part >= end) {
      end += sizes[++stage];
    }
    stage_of[n] = stage;
    stages[stage].forward += node.forward;
    stages[stage].backward += node.backward;
    stages[stage].parameter_bytes += static_cast<double>(node.parameter_bytes);
    stages[stage].kept_bytes += node.time() > 0 ? static_cast<double>(node.output_bytes) : 0;
  }
  std::vector<std::size_t> furthest = stage_of;
  for (CostEdge const& edge : graph.edge) {
    auto const from = static_cast<std::size_t>(edge.from);
    furthest[from] = std::max(furthest[from], stage_of[static_cast<std::size_t>(edge.to)]);
  }
  for (std::size_t n = 0; n < graph.node.size(); ++n) {
    for (std::size_t s = stage_of[n]; s < furthest[n]; ++s) {
      stages[s].sent_bytes += static_cast<double>(graph.node[n].output_bytes);
    }
  }
  return stages;
}

/// The links between @p devices neighbours.
inline LinkSpeed const& worker_link(Machine const& machine, int devices) {
  return devices <= machine.devices_per_node ? machine.inside : machine.between;
}

/// The actions of a worker's devices, messages included.
struct WorkerTable {
  RuntimeMap map{};
  ActionRows table{};
};

template <class = void>
WorkerTable worker_table(WorkerStrategy const& worker) {
  RuntimeMap const map = make_map(worker.schedule, worker.devices, worker.chunks);
  Asynchrony const late = worker.asynchrony();
  int const steps = late.on() ? measured_steps(late) : 0;
  return {map, lower(make_schedule(worker.schedule, worker.devices, worker.microbatches,
                                   worker.chunks, steps),
                     map)};
}

}  // namespace detail

/// The step of a worker.
///
/// Stages are cut so that the heaviest is as light as it can be. Every message takes as long as the
/// largest. Where gradients are late, the step is the period of the filled pipeline. Memory:
/// weights, as many versions as there are, and the like, and the outputs of all microbatches that
/// are live at once; what a device needs for a moment, its arenas and workspaces, is not counted.
/// @param graph               costs of one microbatch
/// @param bytes_of_parameter  that a device holds for each of parameter_bytes, as PlacementTask
/// @pre    the worker is not placed
/// @throws ContractError  the schedule does not exist
template <class = void>
[[nodiscard]] WorkerStep worker_step(WorkerStrategy const& worker, CostGraph const& graph,
                                     Machine const& machine, double bytes_of_parameter) {
  std::vector<double> const times = detail::part_times(graph);
  WorkerStep step;
  int const count = worker.devices * worker.chunks;
  if (static_cast<std::size_t>(count) > times.size()) {
    step.problem = "the network has only " + std::to_string(times.size()) + " parts";
    return step;
  }
  step.sizes = partition_chain(times, count).sizes;
  std::vector<detail::ChainStage> const stages = detail::chain_stages(graph, step.sizes);

  detail::WorkerTable const made = detail::worker_table(worker);
  RuntimeMap const& map = made.map;
  ActionRows const& table = made.table;
  Asynchrony const late = worker.asynchrony();
  bool const again = worker.repeats_forward();
  std::vector<ActionCosts> of_stage;
  double largest = 0;
  for (std::size_t s = 0; s < map.device.size(); ++s) {
    detail::ChainStage const& stage = stages[s % stages.size()];
    double const backward = stage.backward + (again ? stage.forward : 0);
    of_stage.push_back({.forward = detail::nanoseconds(stage.forward),
                        .input_gradient = detail::nanoseconds(stage.backward / 2),
                        .weight_gradient = detail::nanoseconds(stage.backward / 2),
                        .backward = detail::nanoseconds(backward)});
    largest = std::max(largest, stage.sent_bytes);
  }
  double const message =
      worker.devices > 1 ? detail::worker_link(machine, worker.devices).seconds(largest) : 0;
  ActionCosts const costs{.transfer = detail::nanoseconds(message), .of_stage = of_stage.data()};
  TimelineRows const timeline = simulate(table, map, costs);

  step.seconds = late.on() ? detail::period_seconds(table, timeline, late)
                           : static_cast<double>(timeline.makespan) * 1e-9;
  for (int d = 0; d < worker.devices; ++d) {
    auto const device = static_cast<std::size_t>(d);
    WeightPlaces const places{.rule = late, .stage = d};
    double done = 0;
    for (std::size_t i = 0; i < table[device].size(); ++i) {
      done = is_compute(table[device][i].kind)
                 ? std::max(done, static_cast<double>(timeline.action[device][i].end) * 1e-9)
                 : done;
    }
    double busy = 0;
    double parameters = 0;
    double kept = 0;
    for (int s = 0; s < static_cast<int>(map.device.size()); ++s) {
      if (map.device[static_cast<std::size_t>(s)] == d) {
        detail::ChainStage const& stage = stages[static_cast<std::size_t>(s) % stages.size()];
        int const live = late.on() ? places.live() : live_microbatches(table, map, s);
        busy +=
            (stage.forward * (again ? 2 : 1) + stage.backward) * worker.microbatches / map.copies;
        parameters += stage.parameter_bytes;
        kept += again ? stage.sent_bytes * live + stage.kept_bytes : stage.kept_bytes * live;
      }
    }
    step.idle += std::max(0.0, 1 - busy / step.seconds) / worker.devices;
    step.done.push_back(late.on() ? step.seconds : done);
    step.gradient_bytes.push_back(parameters);
    step.memory =
        std::max(step.memory, (bytes_of_parameter + places.count() - 1) * parameters + kept);
  }
  return step;
}

}  // namespace tandem
