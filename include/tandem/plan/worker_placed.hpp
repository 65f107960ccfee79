// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// placed_worker_step: the step of a worker whose devices have nodes of a network anywhere, as
/// ModelParallel<Placed<table>> runs it.
///
/// The engine does not reorder: a device runs its nodes in the network's order, and goes backward
/// in the opposite one. So a placement of place_graph() may take longer than its list schedule, and
/// a worker's nodes are placed for this order.

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tandem/plan/chain_groups.hpp>
#include <tandem/plan/cost_graph.hpp>
#include <tandem/plan/graph_neighbours.hpp>
#include <tandem/plan/list_schedule.hpp>
#include <tandem/plan/machine.hpp>
#include <tandem/plan/place_greedy.hpp>
#include <tandem/plan/placement.hpp>
#include <tandem/plan/simulator_placement.hpp>
#include <tandem/plan/worker.hpp>

namespace tandem {

namespace detail {

/// From each device to each other, [from · devices + to].
using PlacedLinks = std::vector<LinkSpeed>;

template <class = void>  // compiled where it is called, not by every include
PlacedLinks placed_links(PlacementTask const& task) {
  auto const devices = static_cast<std::size_t>(task.devices);
  return PlacedLinks(devices * devices, {task.bandwidth, task.latency});
}

/// Of the first devices of the machine.
template <class = void>
PlacedLinks placed_links(Machine const& machine, int devices) {
  PlacedLinks links;
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to) {
      bool const near = from / machine.devices_per_node == to / machine.devices_per_node;
      links.push_back(near ? machine.inside : machine.between);
    }
  }
  return links;
}

/// Placed steps in the network's order: a device computes one pass at a time, a link and direction
/// carries one tensor at a time, in the order in which they are made. Cost: O(V devices + E).
template <class = void>
class OrderedStep {
 public:
  OrderedStep(CostGraph const& graph, int devices, PlacedLinks links)
      : graph_{graph},
        speed_{std::move(links)},
        neighbours_{graph},
        free_(static_cast<std::size_t>(devices)),
        link_(free_.size() * free_.size()),
        there_(graph.node.size() * free_.size()),
        waits_(there_.size()) {}

  /// Seconds from the first forward to the last backward, if node i runs on placed[i].
  double step(std::vector<int> const& placed) {
    placed_ = placed.data();
    std::fill(free_.begin(), free_.end(), 0);
    std::fill(link_.begin(), link_.end(), 0);
    std::fill(there_.begin(), there_.end(), -1);
    for (int n = 0; n < graph_.nodes(); ++n) {
      go_forward(n);
    }
    std::fill(there_.begin(), there_.end(), -1);
    for (int n = graph_.nodes() - 1; n >= 0; --n) {
      go_backward(n);
    }
    return *std::max_element(free_.begin(), free_.end());
  }

 private:
  [[nodiscard]] int device(int node) const { return placed_[node]; }
  [[nodiscard]] std::size_t at(int row, int device) const {
    return static_cast<std::size_t>(row) * free_.size() + static_cast<std::size_t>(device);
  }
  [[nodiscard]] CostNode const& node(int n) const {
    return graph_.node[static_cast<std::size_t>(n)];
  }

  // From when on a tensor of a node that is made now is on another device.
  double send(int n, int from, int to, double now) {
    double& link = link_[at(from, to)];
    link = std::max(link, now) +
           speed_[at(from, to)].seconds(static_cast<double>(node(n).output_bytes));
    return link;
  }

  void go_forward(int n) {
    int const own = device(n);
    double& now = free_[static_cast<std::size_t>(own)];
    for (int const source : neighbours_.sources(n)) {
      now = std::max(now, there_[at(source, own)]);
      ++waits_[at(source, own)];
    }
    now += node(n).forward;
    there_[at(n, own)] = now;
    for (int const reader : neighbours_.readers(n)) {
      double& there = there_[at(n, device(reader))];
      there = there < 0 ? send(n, own, device(reader), now) : there;
    }
  }

  // there_ says here when a device's part of the gradient of a node's output is at the node.
  void go_backward(int n) {
    int const own = device(n);
    double& now = free_[static_cast<std::size_t>(own)];
    for (int d = 0; d < static_cast<int>(free_.size()); ++d) {
      now = std::max(now, there_[at(n, d)]);
    }
    now += node(n).backward;
    for (int const source : neighbours_.sources(n)) {
      if (--waits_[at(source, own)] == 0) {  // the last of its readers here
        int const to = device(source);
        there_[at(source, own)] = to == own ? now : send(source, own, to, now);
      }
    }
  }

  CostGraph const& graph_;
  PlacedLinks speed_;
  GraphNeighbours neighbours_;
  int const* placed_ = nullptr;
  std::vector<double> free_;   // of a device: from when on
  std::vector<double> link_;   // of a device and another: from when on
  std::vector<double> there_;  // of a node and a device; below 0: never
  std::vector<int> waits_;     // of a node and a device: readers that have not gone backward
};

/// A change that gains less than this share of a step only makes the list of paths longer.
inline constexpr double least_gain = 5e-4;

/// Moves groups of a chain, then nodes, one at a time to where the ordered step is shortest, until
/// none gains by it.
template <class = void>
double settle(CostGraph const& graph, int devices, PlacedLinks links, std::vector<int>& device) {
  OrderedStep<> ordered{graph, devices, std::move(links)};
  double best = ordered.step(device);
  auto const move = [&](std::vector<int> const& group, int which) {
    std::vector<int> moved = device;
    for (int to = 0; to < devices; ++to) {
      for (std::size_t n = 0; n < moved.size(); ++n) {
        moved[n] = group[n] == which ? to : moved[n];
      }
      if (double const step = ordered.step(moved); step < best * (1 - least_gain)) {
        best = step;
        device = moved;
      }
    }
  };
  std::vector<int> alone(device.size());
  std::iota(alone.begin(), alone.end(), 0);
  std::vector<int> chains = ChainGroups{graph}.group;
  for (double before = 2 * best; best < before;) {
    before = best;
    for (auto const* group : {&chains, &alone}) {
      for (int which = 0; which <= group->back(); ++which) {
        move(*group, which);
      }
    }
  }
  return best;
}

}  // namespace detail

/// Seconds from the first forward to the last backward, if node i runs on device[i] and each device
/// goes through its nodes in the graph's order. The rules of placement.hpp hold; memory does not
/// count.
/// @throws ContractError  a number of the graph or the task is out of range
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] double ordered_step(CostGraph const& graph, PlacementTask const& task,
                                  std::vector<int> const& device) {
  detail::check_placement_task(graph, task);
  detail::check_devices(graph, task, device);
  return detail::OrderedStep<>{graph, task.devices, detail::placed_links(task)}.step(device);
}

/// The step of a worker of `placed` devices: nodes go where they end earliest, as place_greedy()
/// has them over the slowest link, and then one by one to where the ordered step is shorter; the
/// same result every time. That step is then simulate_placement()'s: a tensor takes the link
/// between its two devices, and shares ports with those of other pairs. A problem where a device is
/// left without work, which place<Net> refuses: then fewer devices are as fast.
/// @param graph               costs of the worker's minibatch
/// @param bytes_of_parameter  as PlacementTask
/// @throws ContractError  check_machine() refuses the machine
template <class = void>
[[nodiscard]] WorkerStep placed_worker_step(WorkerStrategy const& worker, CostGraph const& graph,
                                            Machine const& machine, double bytes_of_parameter) {
  WorkerStep step;
  if (!machine.has(worker.devices)) {
    step.problem = detail::lacks_devices(worker);
    return step;
  }
  LinkSpeed const& slowest =
      worker.devices <= machine.devices_per_node ? machine.inside : machine.between;
  PlacementTask const task{.devices = worker.devices,
                           .bandwidth = slowest.bandwidth,
                           .latency = slowest.latency,
                           .bytes_of_parameter = bytes_of_parameter};
  step.placement = detail::place_greedy(graph, task);
  if (detail::settle(graph, worker.devices, detail::placed_links(machine, worker.devices),
                     step.placement) >= graph.time()) {
    step.placement.assign(graph.node.size(), 0);
  }
  std::vector<double> memory(static_cast<std::size_t>(worker.devices));
  step.gradient_bytes.resize(memory.size());
  std::set<int> used;
  for (std::size_t n = 0; n < graph.node.size(); ++n) {
    auto const d = static_cast<std::size_t>(step.placement[n]);
    CostNode const& node = graph.node[n];
    memory[d] += detail::bytes_on_device(node, task);
    step.gradient_bytes[d] += static_cast<double>(node.parameter_bytes);
    if (node.time() > 0) {
      used.insert(step.placement[n]);
    }
  }
  if (used.size() < memory.size()) {
    step.problem = "the best placement found has work for " + std::to_string(used.size()) +
                   (used.size() == 1 ? " device only" : " devices only");
    return step;
  }
  SimulatedStep const simulated =
      simulate_placement(machine, graph, network_order(graph, step.placement), worker.devices);
  step.seconds = simulated.last_pass;
  for (SimulatedDevice const& device : simulated.device) {
    step.done.push_back(device.last_pass);
  }
  step.idle = std::max(0.0, 1 - graph.time() / (step.seconds * worker.devices));
  step.memory = *std::max_element(memory.begin(), memory.end());
  return step;
}

}  // namespace tandem
