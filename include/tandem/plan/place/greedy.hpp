// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// place_greedy: a first placement of a graph, node by node, where each ends earliest.

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/graph_neighbours.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/placement.hpp>

namespace tandem::detail {

/// Takes the node with the longest path before it and gives it to the device, of those that have
/// the memory, on which it ends first, as if forward and backward were one pass and links were
/// free; if none has the memory, to that with the most left. Cost: O((V + E) devices + V log V).
/// Source: Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002 ("HEFT").
TANDEM_ONCE std::vector<int> place_greedy(CostGraph const& graph, PlacementTask const& task);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::vector<int> place_greedy(CostGraph const& graph, PlacementTask const& task) {
  GraphNeighbours const neighbours{graph};
  Numbered<double> path(graph.node.size());
  Numbered<double> transfer(graph.node.size());  // there and back
  for (int i = graph.nodes() - 1; i >= 0; --i) {
    CostNode const& node = graph.node[static_cast<std::size_t>(i)];
    transfer[i] = 2 * (task.latency + static_cast<double>(node.output_bytes) / task.bandwidth);
    for (int const v : neighbours.readers(i)) {
      path[i] = std::max(path[i], path[v]);
    }
    path[i] += node.time();
  }
  std::vector<int> order(graph.node.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return path[a] > path[b]; });

  Numbered<int> device(graph.node.size());
  Numbered<double> end(graph.node.size());
  Numbered<double> free(static_cast<std::size_t>(task.devices));  // from when on
  Numbered<double> bytes(static_cast<std::size_t>(task.devices));
  for (int const i : order) {
    CostNode const& node = graph.node[static_cast<std::size_t>(i)];
    double const size = bytes_on_device(node, task);
    std::pair best{0.0, 0.0};  // bytes in excess, end
    for (int d = 0; d < task.devices; ++d) {
      double begin = free[d];
      for (int const u : neighbours.sources(i)) {
        begin = std::max(begin, end[u] + (device[u] == d ? 0 : transfer[u]));
      }
      double const over = bytes[d] + size - static_cast<double>(task.memory);
      std::pair const here{task.memory < 0 ? 0.0 : std::max(0.0, over), begin + node.time()};
      if (d == 0 || here < best) {
        best = here;
        device[i] = d;
      }
    }
    end[i] = free[device[i]] = best.second;
    bytes[device[i]] += size;
  }
  return device;
}

}  // namespace tandem::detail

#endif
