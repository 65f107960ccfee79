// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// schedule_step, schedule_timeline: when each pass and each transfer of a placed graph runs, if
/// every device and every link takes the most urgent thing that is ready whenever it is free. The
/// rules of a step are those of placement.hpp; the order is a heuristic, so a better one may exist.

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/plan/cost_graph.hpp>
#include <tandem/plan/list_schedule_run.hpp>
#include <tandem/plan/placement.hpp>
#include <tandem/plan/placement_timeline.hpp>

namespace tandem {

namespace detail {

template <class = void>  // compiled where it is called, not by every include
void check_placement_task(CostGraph const& graph, PlacementTask const& task) {
  expects(task.devices > 0, "PlacementTask: .devices must be at least 1");
  expects(static_cast<double>(graph.node.size()) * task.devices <= 1e7,
          "PlacementTask: nodes times devices must be 10,000,000 at most; give fewer devices, or a "
          "graph of larger operations");
  expects(task.bandwidth > 0, "PlacementTask: .bandwidth must be above 0 bytes a second");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  expects(task.latency >= 0 && task.latency < infinity,
          "PlacementTask: .latency must be finite and at least 0 seconds");
  expects(task.bytes_of_parameter >= 0, "PlacementTask: .bytes_of_parameter must be at least 0");
  for (CostNode const& n : graph.node) {
    expects(n.forward >= 0 && n.backward >= 0 && n.time() < infinity && n.output_bytes >= 0 &&
                n.parameter_bytes >= 0,
            "CostGraph: times and sizes of a node must be finite and at least 0");
  }
  for (CostEdge const& e : graph.edge) {
    expects(0 <= e.from && e.from < e.to && e.to < graph.nodes(),
            "CostGraph: an edge must lead from a node to one with a higher index");
  }
}

template <class = void>
void check_devices(CostGraph const& graph, PlacementTask const& task, std::span<int const> device) {
  expects(device.size() == graph.node.size(), "schedule_step: give one device for each node");
  for (int const d : device) {
    expects(0 <= d && d < task.devices, "schedule_step: devices count from 0 to .devices - 1");
  }
}

/// Bytes that @p node takes on its device: its output, which backward needs, and its weights with
/// what belongs to them. Whole, so that sums and differences below 2^53 are exact.
inline double bytes_on_device(CostNode const& node, PlacementTask const& task) {
  return static_cast<double>(node.output_bytes) +
         std::ceil(static_cast<double>(node.parameter_bytes) * task.bytes_of_parameter);
}

template <class = void>
bool fits_memory(CostGraph const& graph, PlacementTask const& task, std::span<int const> device) {
  std::vector<double> bytes(static_cast<std::size_t>(task.devices));
  for (std::size_t i = 0; i < device.size(); ++i) {
    bytes[static_cast<std::size_t>(device[i])] += bytes_on_device(graph.node[i], task);
  }
  bool fits = true;
  for (double const b : bytes) {
    fits = fits && (task.memory < 0 || b <= static_cast<double>(task.memory));
  }
  return fits;
}

}  // namespace detail

/// Seconds from the first forward to the last backward, if node i runs on device[i]. The most
/// urgent of what is ready is that with the longest path of passes and transfers before it, its own
/// time included; among equals that of the lower index, forward before backward.
///
/// Infinity if the outputs and weights of a device's nodes need more than task.memory.
/// Cost: O((V + E) log V + V devices) time.
/// @throws ContractError  a number of the graph or the task is out of range
/// Source: the upward rank of Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002 ("HEFT"), of a given
///         placement; Graham 1969 for list scheduling.
template <class = void>
[[nodiscard]] double schedule_step(CostGraph const& graph, PlacementTask const& task,
                                   std::span<int const> device) {
  detail::check_placement_task(graph, task);
  detail::check_devices(graph, task, device);
  if (!detail::fits_memory(graph, task, device)) {
    return std::numeric_limits<double>::infinity();
  }
  return detail::ListSchedule{graph, task}.step(device);
}

/// When everything begins and ends in the step that schedule_step() measures, whether or not the
/// devices have the memory.
/// @throws ContractError  a number of the graph or the task is out of range
template <class = void>
[[nodiscard]] PlacementTimeline schedule_timeline(CostGraph const& graph, PlacementTask const& task,
                                                  std::span<int const> device) {
  detail::check_placement_task(graph, task);
  detail::check_devices(graph, task, device);
  return detail::ListSchedule{graph, task}.timeline(device);
}

}  // namespace tandem
