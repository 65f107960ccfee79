// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// placed_worker_step: the step of a worker whose devices have nodes of a network anywhere, placed
/// for the order in which ModelParallel<Placed<table>> runs them.

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/place/greedy.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/ordered.hpp>
#include <tandem/plan/place/ordered_step.hpp>
#include <tandem/plan/place/placement.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/plan/simulate/placement.hpp>

namespace tandem {

/// The step of a worker of `placed` devices: nodes go where they end earliest, as place_greedy()
/// has them over the slowest link, or where half of the devices have them, and then one by one to
/// where the ordered step is shorter, once with a link for each two devices, once with a port for
/// each; the same result every time, and never slower than half of the devices. The step is
/// simulate_placement()'s of the best: a tensor takes the link between its two devices, and shares
/// their ports. A problem where a device is left without work, which place<Net> refuses: then fewer
/// devices are as fast.
/// @param graph               costs of the worker's minibatch
/// @param bytes_of_parameter  as PlacementTask
/// @throws ContractError  check_machine() refuses the machine
TANDEM_ONCE [[nodiscard]] WorkerStep placed_worker_step(StrategyValue const& worker,
                                                        CostGraph const& graph,
                                                        Machine const& machine,
                                                        double bytes_of_parameter);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE WorkerStep placed_worker_step(StrategyValue const& worker, CostGraph const& graph,
                                          Machine const& machine, double bytes_of_parameter) {
  WorkerStep step;
  if (!machine.has(worker.replica_devices())) {
    step.problem = detail::lacks_devices(worker);
    return step;
  }
  LinkSpeed const slowest = machine.link(0, worker.replica_devices() - 1);
  PlacementTask const task{.devices = worker.replica_devices(),
                           .bandwidth = slowest.bandwidth,
                           .latency = slowest.latency,
                           .bytes_of_parameter = bytes_of_parameter};
  // A step costs O(nodes devices + edges): so many take some tenths of a second; the networks of
  // models/ come to their end before.
  auto const cost =
      graph.node.size() * static_cast<std::size_t>(worker.replica_devices()) + graph.edge.size();
  detail::SettleLimit const limit{static_cast<long>(10'000'000 / cost)};
  std::vector<std::vector<int>> starts{detail::place_greedy(graph, task)};
  SimulatedStep simulated;
  auto const consider = [&](std::vector<int> placement) {
    SimulatedStep own = simulate_placement(machine, graph, network_order(graph, placement),
                                           worker.replica_devices());
    if (step.placement.empty() || own.last_pass < simulated.last_pass) {
      step.placement = std::move(placement);
      simulated = std::move(own);
    }
  };
  if (worker.replica_devices() > 2) {
    StrategyValue fewer = worker;
    fewer.parts = (worker.parts + 1) / 2;
    starts.push_back(placed_worker_step(fewer, graph, machine, bytes_of_parameter).placement);
    consider(starts.back());
  }
  for (bool const one_port : {false, true}) {
    if (one_port && worker.replica_devices() == 2) {  // whose link is their port
      break;
    }
    for (std::vector<int> placement : starts) {
      detail::settle(graph, detail::placed_links(machine, worker.replica_devices(), one_port),
                     placement, limit);
      consider(std::move(placement));
    }
  }
  if (simulated.last_pass >= graph.time()) {
    step.placement.assign(graph.node.size(), 0);
  }
  std::vector<double> memory(static_cast<std::size_t>(worker.replica_devices()));
  step.gradient_bytes.resize(memory.size());
  step.row_bytes.resize(memory.size());
  std::set<int> used;
  for (std::size_t n = 0; n < graph.node.size(); ++n) {
    auto const d = static_cast<std::size_t>(step.placement[n]);
    CostNode const& node = graph.node[n];
    memory[d] += detail::bytes_on_device(node, task);
    step.gradient_bytes[d] += node.dense_bytes();
    step.row_bytes[d] += node.rows.bytes();
    if (node.time() > 0) {
      used.insert(step.placement[n]);
    }
  }
  if (used.size() < memory.size()) {
    step.problem = "the best placement found has work for " + std::to_string(used.size()) +
                   (used.size() == 1 ? " device only" : " devices only");
    return step;
  }
  step.seconds = simulated.last_pass;
  for (SimulatedDevice const& device : simulated.device) {
    step.done.push_back(device.last_pass);
  }
  step.idle = std::max(0.0, 1 - graph.time() / (step.seconds * worker.replica_devices()));
  step.memory = *std::max_element(memory.begin(), memory.end());
  return step;
}

}  // namespace tandem

#endif
