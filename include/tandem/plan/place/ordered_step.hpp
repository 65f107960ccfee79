// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ordered_step: the step of a placed network as ModelParallel<Placed<table>> runs it.
///
/// The engine does not reorder: a device runs its nodes in the network's order, and goes backward
/// in the opposite one. So a placement of place_graph() may take longer than its list schedule.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/graph_neighbours.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/placement.hpp>

namespace tandem {

namespace detail {

/// What carries tensors from device to device.
struct PlacedLinks {
  int devices = 0;
  std::vector<LinkSpeed> speed{};  ///< [from · devices + to]
  bool one_port = false;           ///< a device sends one tensor at a time to all, and takes one
};

TANDEM_ONCE PlacedLinks placed_links(PlacementTask const& task);

/// Of the first devices of the machine.
TANDEM_ONCE PlacedLinks placed_links(Machine const& machine, int devices, bool one_port);

/// Placed steps in the network's order: a device computes one pass at a time, a link and direction
/// carries one tensor at a time, in the order in which they are made. Cost: O(V devices + E).
class OrderedStep {
 public:
  TANDEM_ONCE OrderedStep(CostGraph const& graph, PlacedLinks links);

  /// Seconds from the first forward to the last backward, if node i runs on placed[i].
  TANDEM_ONCE double step(std::vector<int> const& placed);

 private:
  [[nodiscard]] int device(int node) const { return placed_[node]; }
  [[nodiscard]] std::size_t at(int row, int device) const {
    return static_cast<std::size_t>(row) * free_.size() + static_cast<std::size_t>(device);
  }
  [[nodiscard]] CostNode const& node(int n) const {
    return graph_.node[static_cast<std::size_t>(n)];
  }

  // From when on a tensor of a node that is made now is on another device.
  TANDEM_ONCE double send(int n, int from, int to, double now);

  TANDEM_ONCE void go_forward(int n);

  // there_ says here when a device's part of the gradient of a node's output is at the node.
  TANDEM_ONCE void go_backward(int n);

  CostGraph const& graph_;
  PlacedLinks links_;
  GraphNeighbours neighbours_;
  int const* placed_ = nullptr;
  std::vector<double> free_;   // of a device: from when on
  std::vector<double> out_;    // of a device's port: from when on
  std::vector<double> in_;     // as above
  std::vector<double> link_;   // of a device and another: from when on
  std::vector<double> there_;  // of a node and a device; below 0: never
  std::vector<int> waits_;     // of a node and a device: readers that have not gone backward
};

}  // namespace detail

/// Seconds from the first forward to the last backward, if node i runs on device[i] and each device
/// goes through its nodes in the graph's order. The rules of placement.hpp hold; memory does not
/// count.
/// @throws ContractError  a number of the graph or the task is out of range
TANDEM_ONCE [[nodiscard]] double ordered_step(CostGraph const& graph, PlacementTask const& task,
                                              std::vector<int> const& device);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE PlacedLinks placed_links(PlacementTask const& task) {
  auto const devices = static_cast<std::size_t>(task.devices);
  return {task.devices, std::vector<LinkSpeed>(devices * devices, {task.bandwidth, task.latency})};
}

TANDEM_ONCE PlacedLinks placed_links(Machine const& machine, int devices, bool one_port) {
  PlacedLinks links{.devices = devices, .one_port = one_port};
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to) {
      links.speed.push_back(machine.link(from, to));
    }
  }
  return links;
}

TANDEM_ONCE OrderedStep::OrderedStep(CostGraph const& graph, PlacedLinks links)
    : graph_{graph},
      links_{std::move(links)},
      neighbours_{graph},
      free_(static_cast<std::size_t>(links_.devices)),
      out_(free_.size()),
      in_(free_.size()),
      link_(free_.size() * free_.size()),
      there_(graph.node.size() * free_.size()),
      waits_(there_.size()) {}

TANDEM_ONCE double OrderedStep::step(std::vector<int> const& placed) {
  placed_ = placed.data();
  std::fill(free_.begin(), free_.end(), 0);
  std::fill(link_.begin(), link_.end(), 0);
  std::fill(out_.begin(), out_.end(), 0);
  std::fill(in_.begin(), in_.end(), 0);
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

TANDEM_ONCE double OrderedStep::send(int n, int from, int to, double now) {
  double& out = out_[static_cast<std::size_t>(from)];
  double& in = in_[static_cast<std::size_t>(to)];
  double& link = link_[at(from, to)];
  double const free = links_.one_port ? std::max({link, out, in}) : link;
  link = std::max(free, now) +
         links_.speed[at(from, to)].seconds(static_cast<double>(node(n).output_bytes));
  out = in = link;
  return link;
}

TANDEM_ONCE void OrderedStep::go_forward(int n) {
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

TANDEM_ONCE void OrderedStep::go_backward(int n) {
  int const own = device(n);
  double& now = free_[static_cast<std::size_t>(own)];
  for (int d = 0; d < links_.devices; ++d) {
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

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE double ordered_step(CostGraph const& graph, PlacementTask const& task,
                                std::vector<int> const& device) {
  detail::check_placement_task(graph, task);
  detail::check_devices(graph, task, device);
  return detail::OrderedStep{graph, detail::placed_links(task)}.step(device);
}

}  // namespace tandem

#endif
