// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// simulate_worker: the step of a worker that the search found, with link contention and with
/// messages of the size that each has; worker_step() takes all for as long as the largest. And
/// chain_costs, for simulate_on() of any other table on a network.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/plan/chain_partition.hpp>
#include <tandem/plan/cost_graph.hpp>
#include <tandem/plan/machine.hpp>
#include <tandem/plan/simulator.hpp>
#include <tandem/plan/simulator_placement.hpp>
#include <tandem/plan/worker.hpp>
#include <tandem/strategy/stage_map_view.hpp>

namespace tandem {

namespace detail {

/// One device sums its gradients 25 MiB at a time while it goes on, from the last layer to the
/// first, as search_plans() has it.
template <class = void>  // compiled where it is called, not by every include
std::vector<GradientBucket> gradient_buckets(CostGraph const& graph) {
  constexpr double full = 25 * 1024 * 1024;
  std::vector<GradientBucket> buckets;
  double left = 0;  // of the backward pass, behind what was looked at
  for (CostNode const& node : graph.node) {
    left += node.backward;
  }
  double bytes = 0;
  for (std::size_t n = graph.node.size(); n-- > 0;) {
    left -= graph.node[n].backward;
    bytes += static_cast<double>(graph.node[n].parameter_bytes);
    if (bytes > 0 && (bytes >= full || n == 0)) {
      buckets.push_back({bytes, n == 0 ? 0 : std::max(0.0, left)});
      bytes = 0;
    }
  }
  return buckets;
}

}  // namespace detail

/// What a table costs whose stages are a chain of consecutive parts of a network, or copies of it.
/// @param graph  costs of one microbatch
/// @param sizes  top-level parts of each stage; if there are none, the stages are cut so that the
///               heaviest is as light as it can be
/// @param again  backward passes repeat the forward ones, so that only what is sent is kept
/// @throws ContractError  the network has fewer parts than the table, or there are other sizes
template <class = void>
[[nodiscard]] SimulatedCosts chain_costs(StageMapView const& map, CostGraph const& graph,
                                         std::vector<int> const& sizes = {}, bool again = false) {
  std::vector<double> const times = detail::part_times(graph);
  if (static_cast<std::size_t>(map.parts()) > times.size()) {
    throw ContractError{"chain_costs: the network has only " + std::to_string(times.size()) +
                        " parts for " + std::to_string(map.parts()) + " stages"};
  }
  std::vector<detail::ChainStage> const stages = detail::chain_stages(
      graph, sizes.empty() ? partition_chain(times, map.parts()).sizes : sizes);
  expects(static_cast<int>(stages.size()) == map.parts(),
          "chain_costs(map, graph, sizes): give a size for each stage of a copy");
  SimulatedCosts costs;
  for (int s = 0; s < map.stages; ++s) {
    detail::ChainStage const& stage = stages[static_cast<std::size_t>(s % map.parts())];
    costs.stage.push_back({.forward = stage.forward,
                           .input_gradient = stage.backward / 2,
                           .weight_gradient = stage.backward / 2,
                           .backward = stage.backward + (again ? stage.forward : 0),
                           .kept_bytes = again ? stage.sent_bytes : stage.kept_bytes,
                           .working_bytes = again ? stage.kept_bytes : 0,
                           .gradients = {{stage.parameter_bytes, 0}}});
  }
  for (int e = 0; e < map.edges; ++e) {
    costs.message_bytes.push_back(
        stages[static_cast<std::size_t>(map.edge[e].from % map.parts())].sent_bytes);
  }
  return costs;
}

/// The step of options.workers such workers, each with its own minibatch; of an asynchronous
/// pipeline, whose gradients are not summed, the steps in which worker_step() measures its period.
/// @param step   what worker_step() or placed_worker_step() made of the worker
/// @param graph  costs of one microbatch
/// @throws ContractError  @p step has a problem; else as simulate_on() and simulate_placement()
template <class = void>
[[nodiscard]] SimulatedStep simulate_worker(WorkerStrategy const& worker, WorkerStep const& step,
                                            CostGraph const& graph, Machine const& machine,
                                            SimulationOptions const& options = {}) {
  if (!step.problem.empty()) {
    throw ContractError{"simulate_worker: it cannot run, " + step.problem};
  }
  expects(
      options.workers == 1 || !worker.asynchrony().on(),
      "simulate_worker(worker, step, graph, machine, options): an asynchronous pipeline has all "
      "devices; give one worker");
  if (worker.is_placed()) {
    return simulate_placement(machine, graph, network_order(graph, step.placement), worker.devices,
                              options);
  }
  detail::WorkerTable const made = detail::worker_table(worker);
  SimulatedCosts costs = chain_costs(made.map, graph, step.sizes, worker.repeats_forward());
  if (worker.devices == 1) {
    costs.stage[0].gradients = detail::gradient_buckets(graph);
  }
  return simulate_on(machine, made.table, made.map, costs, options);
}

}  // namespace tandem
