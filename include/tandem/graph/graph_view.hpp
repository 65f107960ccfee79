// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GraphView: a graph of any size, for code that is to be compiled once and not for each network.

#include <string>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph.hpp>

namespace tandem {

/// Refers to a Graph, which must outlive it.
struct GraphView {
  int nodes = 0;
  int edges = 0;
  int parameters = 0;
  Node const* node = nullptr;
  int const* source = nullptr;
  int const* edge_origin = nullptr;
  GraphParameter const* parameter = nullptr;
  int result = -1;

  template <GraphSize Size>
  constexpr GraphView(Graph<Size> const& graph)
      : nodes{Size.nodes},
        edges{Size.edges},
        parameters{Size.parameters},
        node{graph.node},
        source{graph.source},
        edge_origin{graph.edge_origin},
        parameter{graph.parameter},
        result{graph.result} {}
};

/// The node whose memory has the output of @p n: through views, and the homes of slices.
constexpr int root_of(GraphView graph, int n) {
  for (;;) {
    Node const& node = graph.node[n];
    if (node.fusion.home < 0 && !node.view) {
      return n;
    }
    n = node.fusion.home >= 0 ? node.fusion.home : graph.source[node.first_edge];
  }
}

/// Where in the pixels of that memory the output of @p n begins.
constexpr int first_channel_of(GraphView graph, int n) {
  int first = 0;
  for (;;) {
    Node const& node = graph.node[n];
    if (node.fusion.home < 0 && !node.view) {
      return first;
    }
    first += node.fusion.first_channel;
    n = node.fusion.home >= 0 ? node.fusion.home : graph.source[node.first_edge];
  }
}

/// Channels of a pixel of that memory.
constexpr int stored_channels(GraphView graph, int n) {
  Node const& root = graph.node[root_of(graph, n)];
  return root.fusion.width > 0 ? root.fusion.width : root.out[0];
}

/// The name of parameter @p p in checkpoints and in parameter groups: "2.0.1.weight".
inline std::string parameter_name(GraphView graph, int p) {
  GraphParameter const& parameter = graph.parameter[p];
  std::string const path = to_string(parameter.path);
  return (path.empty() ? path : path + ".") + parameter.parameter.name;
}

/// The name that a shared parameter of a network's graph would have if it were not.
TANDEM_ONCE std::string untied_name(GraphView network, int p);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string untied_name(GraphView network, int p) {
  GraphParameter const& parameter = network.parameter[p];
  std::string const path = to_string(network.node[parameter.node].path);
  return (path.empty() ? path : path + ".") + parameter.own_name;
}

}  // namespace tandem

#endif
