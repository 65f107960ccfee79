// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GraphNeighbours: who reads a node and what it reads, without a search through all edges.

#include <cstddef>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/cost_graph.hpp>

namespace tandem::detail {

/// Lists of nodes, one after the other in one array. Cost: O(V + E) to make; an edge that stands
/// twice in the graph stands twice here.
class GraphNeighbours {
 public:
  explicit GraphNeighbours(CostGraph const& graph)
      : readers_{lists(graph, &CostEdge::from, &CostEdge::to)},
        sources_{lists(graph, &CostEdge::to, &CostEdge::from)} {}

  [[nodiscard]] std::span<int const> readers(int node) const { return readers_.of(node); }
  [[nodiscard]] std::span<int const> sources(int node) const { return sources_.of(node); }

 private:
  struct Lists {
    std::vector<std::size_t> begin{};
    std::vector<int> node{};

    std::span<int const> of(int i) const {
      std::size_t const at = static_cast<std::size_t>(i);
      return {node.data() + begin[at], begin[at + 1] - begin[at]};
    }
  };

  TANDEM_ONCE static Lists lists(CostGraph const& graph, int CostEdge::*key, int CostEdge::*value);

  Lists readers_;
  Lists sources_;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE GraphNeighbours::Lists GraphNeighbours::lists(CostGraph const& graph,
                                                          int CostEdge::*key,
                                                          int CostEdge::*value) {
  Lists result{std::vector<std::size_t>(graph.node.size() + 2),
               std::vector<int>(graph.edge.size())};
  for (CostEdge const& e : graph.edge) {
    ++result.begin[static_cast<std::size_t>(e.*key) + 2];
  }
  for (std::size_t i = 2; i < result.begin.size(); ++i) {
    result.begin[i] += result.begin[i - 1];
  }
  for (CostEdge const& e : graph.edge) {
    result.node[result.begin[static_cast<std::size_t>(e.*key) + 1]++] = e.*value;
  }
  return result;
}

}  // namespace tandem::detail

#endif
