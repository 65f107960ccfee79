// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rewrites: functions from graph to graph that suit a graph to a backend's kernels.
///
/// They keep every node, its index, its parameters and its edges, so that names, random numbers and
/// buckets are those of the network as the user wrote it; only what a node's op does changes.

#include <tandem/graph/graph.hpp>

namespace tandem {

/// Which rewrites a backend wants.
struct Rewrites {
  bool fuse_relu = false;      ///< a ReLU behind a batch norm becomes part of it
  bool channels_last = false;  ///< activations are stored (B, H, W, C)
};

/// Marks each batch norm whose only reader is a ReLU, which becomes a view of its output.
template <GraphSize Size>
constexpr Graph<Size> fuse_relu(Graph<Size> graph) {
  int uses[Size.nodes] = {};
  for (int e = 0; e < Size.edges; ++e) {
    ++uses[graph.source[e]];
  }
  for (int n = 1; n < Size.nodes; ++n) {
    int const source = graph.source[graph.node[n].first_edge];
    Node& before = graph.node[source];
    if (graph.node[n].layer == LayerKind::relu && before.layer == LayerKind::batch_norm &&
        uses[source] == 1) {
      before.relu = true;
      graph.node[n].view = true;
    }
  }
  return graph;
}

/// Makes each Flatten that would change the order of elements in memory a copy: (H, W, C) is not
/// (C, H, W) where there are several channels and several pixels.
template <GraphSize Size>
constexpr Graph<Size> materialise_flatten(Graph<Size> graph) {
  for (int n = 1; n < Size.nodes; ++n) {
    Node& node = graph.node[n];
    if (node.layer == LayerKind::flatten && node.in.rank == 3 && node.in[0] > 1 &&
        node.in[1] * node.in[2] > 1) {
      node.view = false;
    }
  }
  return graph;
}

/// All that @p rewrites asks for.
template <GraphSize Size>
constexpr Graph<Size> rewrite(Graph<Size> graph, Rewrites rewrites) {
  if (rewrites.fuse_relu) {
    graph = fuse_relu(graph);
  }
  if (rewrites.channels_last) {
    graph = materialise_flatten(graph);
  }
  return graph;
}

/// The rewrites of a backend: its member `rewrites`, or none.
template <class Backend>
constexpr Rewrites rewrites_of() {
  if constexpr (requires { Backend::rewrites; }) {
    return Backend::rewrites;
  } else {
    return {};
  }
}

}  // namespace tandem
