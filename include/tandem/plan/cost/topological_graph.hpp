// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// topological_graph: a CostGraph of nodes and edges as a file has them, in any order.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/plan/cost/cost_graph.hpp>

namespace tandem::detail {

/// An edge of a cycle; there is one among the nodes whose place is -1.
TANDEM_ONCE CostEdge edge_of_cycle(std::vector<CostEdge> const& edges, Numbered<int> const& place);

/// Nodes in topological order, of those that could come next the first of @p nodes, each a part of
/// its own; edges sorted by their first node, then their second.
///
/// Cost: O((nodes + edges) log(nodes + edges)).
/// @param edges       between numbers of nodes, each once
/// @param fail_cycle  fail_cycle(edge): what is called, and throws, with an edge of a cycle
template <class Fail>
CostGraph topological_graph(std::vector<CostNode> nodes, std::vector<CostEdge> const& edges,
                            Fail const& fail_cycle) {
  Numbered<std::vector<int>> reader(nodes.size());
  Numbered<int> missing(nodes.size());  // inputs that have no place yet
  for (CostEdge const& edge : edges) {
    reader[edge.from].push_back(edge.to);
    ++missing[edge.to];
  }
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (missing[n] == 0) {
      ready.push(static_cast<int>(n));
    }
  }
  CostGraph graph;
  Numbered<int> place(nodes.size(), -1);
  while (!ready.empty()) {
    int const n = ready.top();
    ready.pop();
    place[n] = graph.nodes();
    graph.node.push_back(std::move(nodes[static_cast<std::size_t>(n)]));
    graph.node.back().part = place[n];
    for (int const r : reader[n]) {
      if (--missing[r] == 0) {
        ready.push(r);
      }
    }
  }
  if (graph.node.size() < nodes.size()) {
    fail_cycle(edge_of_cycle(edges, place));
  }
  for (CostEdge const& edge : edges) {
    graph.edge.push_back({place[edge.from], place[edge.to]});
  }
  std::sort(graph.edge.begin(), graph.edge.end(), [](CostEdge const& a, CostEdge const& b) {
    return std::pair{a.from, a.to} < std::pair{b.from, b.to};
  });
  return graph;
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE CostEdge edge_of_cycle(std::vector<CostEdge> const& edges, Numbered<int> const& place) {
  Numbered<int> input(place.size(), -1);  // of each node of a cycle or behind one, an input too
  int at = -1;
  for (CostEdge const& edge : edges) {
    if (place[edge.from] < 0 && place[edge.to] < 0) {
      input[edge.to] = edge.from;
      at = edge.to;
    }
  }
  Numbered<bool> seen(place.size());
  while (!seen[at]) {  // against the edges, until a node comes again
    seen[at] = true;
    at = input[at];
  }
  return {input[at], at};
}

}  // namespace tandem::detail

#endif
