// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// simulate_placement: a step of a placed graph on a described machine, whose links its tensors
/// share.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/graph_neighbours.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/placement.hpp>
#include <tandem/plan/place/timeline.hpp>
#include <tandem/plan/simulate/placement_jobs.hpp>
#include <tandem/plan/simulate/simulator.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem {

/// The order of ModelParallel<Placed<...>>: a device goes forward through its nodes as the network
/// has them and backward the opposite way, tensors go as they are made. Times are places in the
/// order, no seconds.
/// @pre  device[i] >= 0 is the device of node i
TANDEM_ONCE [[nodiscard]] PlacementTimeline network_order(CostGraph const& graph,
                                                          std::vector<int> const& device);

/// The step of a placed graph whose devices, and pairs of devices, do everything in the order of
/// @p order: that of schedule_timeline(), or network_order(). A pair sends one tensor at a time,
/// each way; transfers of several pairs share the ports of the machine.
///
/// In the result node i is stage i of microbatch 0. Memory is that of outputs, from a node's
/// forward to the end of its backward. Workers sum the gradients of a device when its last backward
/// pass has ended.
/// @param devices  of a worker
/// @throws ContractError  a node has a device that is not there, or the machine has not so many;
///                        the order is not one of this graph; more than 32,767 nodes
TANDEM_ONCE [[nodiscard]] SimulatedStep simulate_placement(Machine const& machine,
                                                           CostGraph const& graph,
                                                           PlacementTimeline const& order,
                                                           int devices,
                                                           SimulationOptions const& options = {});

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// What nodes keep, and the sum of a device's gradients at the node that goes backward last there.
TANDEM_ONCE std::vector<StageLoad> placed_loads(CostGraph const& graph,
                                                PlacementTimeline const& order, int devices) {
  std::vector<StageLoad> loads(graph.node.size());
  std::vector<GradientBucket> own(static_cast<std::size_t>(devices));
  std::vector<std::size_t> last(own.size(), graph.node.size());
  for (std::size_t n = 0; n < graph.node.size(); ++n) {
    auto const d = static_cast<std::size_t>(order.device[n]);
    loads[n].kept_bytes = static_cast<double>(graph.node[n].output_bytes);
    own[d].bytes += graph.node[n].dense_bytes();
    own[d].row_bytes += graph.node[n].rows.bytes();
    bool const later =
        last[d] == loads.size() || order.backward[n].begin > order.backward[last[d]].begin;
    last[d] = later ? n : last[d];
  }
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (last[d] < loads.size()) {
      loads[last[d]].gradients = {own[d]};
    }
  }
  return loads;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE PlacementTimeline network_order(CostGraph const& graph,
                                            std::vector<int> const& device) {
  detail::GraphNeighbours const neighbours{graph};
  PlacementTimeline order{.device = device};
  std::set<std::pair<int, int>> sent;  // node, device
  auto const at = [](int place) { return PlacementSpan{1.0 * place, 1.0 * place + 1}; };
  auto const of = [&](int node) { return device[static_cast<std::size_t>(node)]; };
  for (int n = 0; n < graph.nodes(); ++n) {
    order.forward.push_back(at(n));
    order.backward.push_back(at(2 * graph.nodes() - n));
    for (int const reader : neighbours.readers(n)) {
      if (of(reader) != of(n) && sent.insert({n, of(reader)}).second) {
        order.transfer.push_back({n, of(n), of(reader), false, at(n)});
      }
    }
  }
  for (int n = 0; n < graph.nodes(); ++n) {  // the last reader to go backward is the first here
    for (int const source : neighbours.sources(n)) {
      if (sent.erase({source, of(n)}) > 0) {
        order.transfer.push_back(
            {source, of(n), of(source), true, order.backward[static_cast<std::size_t>(n)]});
      }
    }
  }
  return order;
}

TANDEM_ONCE SimulatedStep simulate_placement(Machine const& machine, CostGraph const& graph,
                                             PlacementTimeline const& order, int devices,
                                             SimulationOptions const& options) {
  detail::check_placement_task(graph, {.devices = devices});
  detail::check_devices(graph, {.devices = devices}, order.device);
  expects(options.workers >= 1 && order.forward.size() == graph.node.size() &&
              order.backward.size() == graph.node.size() &&
              graph.node.size() <= std::size_t{std::numeric_limits<std::int16_t>::max()},
          "simulate_placement(machine, graph, order, devices, options): give a worker or more, and "
          "an order of the graph, which has 32767 nodes at most");
  Mesh const mesh = Mesh{Axis::data, options.workers} * Mesh{Axis::model, devices};
  detail::MachinePorts const ports{machine, mesh.size()};
  detail::SimulatorJobs jobs;
  std::deque<detail::PlacementJobs> workers;
  for (int w = 0; w < mesh.groups(Axis::model); ++w) {
    workers.emplace_back(jobs, graph, order, mesh.group(w, Axis::model).first);
  }
  std::vector<PlacementSpan> const span = detail::JobRun{jobs, ports, options.shares_links}.run();

  SimulatedStep step{.mesh = mesh};
  step.device.resize(static_cast<std::size_t>(mesh.size()));
  for (detail::PlacementJobs const& worker : workers) {
    worker.note(span, step);
  }
  for (SimulatedDevice& one : step.device) {
    std::stable_sort(one.action.begin(), one.action.end(),
                     [](auto const& a, auto const& b) { return a.span.begin < b.span.begin; });
  }
  RuntimeMap map;
  map.devices = devices;
  for (std::size_t n = 0; n < graph.node.size(); ++n) {
    map.device.push_back(static_cast<std::int16_t>(order.device[n]));
    step.stage_name.push_back(graph.node[n].name);
  }
  std::vector<StageLoad> const loads = detail::placed_loads(graph, order, devices);
  detail::add_reductions(step, machine, map, loads, mesh, true);
  detail::summarise(step, loads);
  return step;
}

}  // namespace tandem

#endif
