// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RuntimeGraph: a graph whose size is known at run time only; PerNode, PerEdge: what a walk over a
/// graph of either kind keeps of each node or edge.

#include <cstddef>

#include <tandem/core/config.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem::detail {

/// A graph that a walk fills, such as a cutter's. Its members are a Graph's.
struct RuntimeGraph {
  int nodes = 0;
  int edges = 0;
  int parameters = 0;
  Numbered<Node> node{};
  Numbered<int> source{};
  Numbered<int> edge_origin{};
  Numbered<GraphParameter> parameter{};
  int tops = 0;
  int result = -1;
  Fault fault = Fault::none;

  RuntimeGraph() = default;
  /// A copy, of which a walk may read.
  explicit RuntimeGraph(GraphView view)
      : nodes{view.nodes},
        edges{view.edges},
        parameters{view.parameters},
        node(view.node, view.node + view.nodes),
        source(view.source, view.source + view.edges),
        edge_origin(view.edge_origin, view.edge_origin + view.edges),
        parameter(view.parameter, view.parameter + view.parameters),
        tops{view.nodes > 0 ? view.node[view.nodes - 1].top + 1 : 0},
        result{view.result} {}

  TANDEM_ONCE void resize(GraphSize size);
  /// Refers to this. @p view  of any graph
  TANDEM_ONCE [[nodiscard]] GraphView view(GraphView view) const;
};

template <class T, class G>
struct PerNodeOf {
  using type = T[static_cast<std::size_t>(G::nodes)];
};
template <class T>
struct PerNodeOf<T, RuntimeGraph> {
  using type = Numbered<T>;
};

/// One T for each node of a graph: an array where the compiler knows how many there are.
template <class T, class G>
using PerNode = typename PerNodeOf<T, G>::type;

template <class T, class G>
struct PerEdgeOf {
  using type = T[static_cast<std::size_t>(G::edges > 0 ? G::edges : 1)];
};
template <class T>
struct PerEdgeOf<T, RuntimeGraph> {
  using type = Numbered<T>;
};

/// Likewise for each edge.
template <class T, class G>
using PerEdge = typename PerEdgeOf<T, G>::type;

/// Makes room for so many, all T{}; an array has it.
template <class T, std::size_t Size>
constexpr void make_room(T (&)[Size], int) {}
template <class T>
void make_room(Numbered<T>& list, int nodes) {
  list.assign(static_cast<std::size_t>(nodes), T{});
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void RuntimeGraph::resize(GraphSize size) {
  nodes = size.nodes;
  edges = size.edges;
  parameters = size.parameters;
  node.resize(static_cast<std::size_t>(size.nodes));
  source.resize(static_cast<std::size_t>(size.edges));
  edge_origin.resize(source.size());
  parameter.resize(static_cast<std::size_t>(size.parameters));
}

TANDEM_ONCE GraphView RuntimeGraph::view(GraphView view) const {
  view.nodes = nodes;
  view.edges = edges;
  view.parameters = parameters;
  view.node = node.data();
  view.source = source.data();
  view.edge_origin = edge_origin.data();
  view.parameter = parameter.data();
  view.result = result;
  return view;
}

}  // namespace tandem::detail

#endif
