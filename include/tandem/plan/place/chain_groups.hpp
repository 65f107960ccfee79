// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ChainGroups: a smaller graph to begin a search on, of which each node stands for a few nodes of
/// a chain that hardly any good placement separates.

#include <cstddef>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/graph_neighbours.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

/// A node joins the node it reads if no other reads that and it reads no other, and if its output
/// is not larger: to send its output is then as cheap.
struct ChainGroups {
  CostGraph graph{};         ///< of the groups
  std::vector<int> group{};  ///< of each node

  explicit ChainGroups(CostGraph const& of) : group(of.node.size()) {
    GraphNeighbours const neighbours{of};
    for (int i = 0; i < of.nodes(); ++i) {
      CostNode const& node = of.node[static_cast<std::size_t>(i)];
      auto const sources = neighbours.sources(i);
      bool const joins =
          sources.size() == 1 && neighbours.readers(sources[0]).size() == 1 &&
          node.output_bytes <= of.node[static_cast<std::size_t>(sources[0])].output_bytes;
      int const at = joins ? group[static_cast<std::size_t>(sources[0])] : graph.nodes();
      group[static_cast<std::size_t>(i)] = at;
      if (joins) {
        CostNode& sum = graph.node[static_cast<std::size_t>(at)];
        sum.forward += node.forward;
        sum.backward += node.backward;
        sum.output_bytes = node.output_bytes;
        sum.parameter_bytes += node.parameter_bytes;
        sum.rows += node.rows;
      } else {
        graph.node.push_back(node);
      }
    }
    for (CostEdge const& e : of.edge) {
      int const from = group[static_cast<std::size_t>(e.from)];
      int const to = group[static_cast<std::size_t>(e.to)];
      if (from != to) {
        graph.edge.push_back({from, to});
      }
    }
  }

  /// The device of each node, if all of a group go where the group goes.
  [[nodiscard]] std::vector<int> devices(std::vector<int> const& of_group) const {
    std::vector<int> device;
    for (int const g : group) {
      device.push_back(of_group[static_cast<std::size_t>(g)]);
    }
    return device;
  }
};

}  // namespace tandem::detail

#endif
