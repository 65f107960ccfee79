// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// gradient_bound: the memory of a device's activation gradients, whatever backend of the library
/// it has. Exact for the greediest of them: its graph is rewritten and its gradients are placed.

#include <algorithm>
#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/graph/branches.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/strategy/memory/gradient_arena.hpp>

namespace tandem {

namespace detail {

/// A graph's nodes, to be rewritten, for a size that is not part of a type.
class NodeCopies {
 public:
  int nodes;
  Node* node;
  int const* source;

  constexpr explicit NodeCopies(GraphView graph)
      : nodes{graph.nodes}, node{nullptr}, source{graph.source}, own_{graph.nodes} {
    node = own_.data();
    for (int n = 0; n < nodes; ++n) {
      node[n] = graph.node[n];
    }
  }

 private:
  Scratch<Node> own_;
};

/// As Readers.
struct NodeReaders {
  Scratch<int> count;
  Scratch<int> last;

  constexpr explicit NodeReaders(GraphView graph) : count{graph.nodes}, last{graph.nodes} {
    for (int n = 0; n < graph.nodes; ++n) {
      for (int e = graph.node[n].first_edge, end = e + graph.node[n].edges; e < end; ++e) {
        ++count[graph.source[e]];
        last[graph.source[e]] = n;
      }
    }
  }
};

}  // namespace detail

/// Bytes of the gradients of a device's activations, at most: with the backends `Host` of portable
/// kernels, which computes ReLU and Dropout in place; Cuda, which fuses ReLU with batch norm,
/// activations with Linear and sums with norms, and places concatenations; and `Host` of oneDNN,
/// which merges convolutions instead of the two in the middle.
/// @param graph    as it is before rewrites
/// @param task     in_place is not read; apart: the strategy is Reproducible
/// @param passes   whose gradients are held at once
/// @param segment  of each node: its run that is computed again, or -1
/// @param streams  on which Cuda runs branches at the same time; 1: one after another
constexpr std::int64_t gradient_bound(GraphView graph, GradientTask task, int passes,
                                      int const* segment = nullptr, int streams = 1) {
  detail::Scratch<bool> in_place{graph.nodes};
  for (int n = 0; n < graph.nodes; ++n) {
    LayerKind const layer = graph.node[n].layer;
    in_place[n] = layer == LayerKind::relu || layer == LayerKind::dropout;
  }
  std::int64_t most = 0;
  auto const place_as = [&](bool const* places, Branches const* at_once) {
    task.in_place = places;
    task.branches = at_once;
    GradientArena const arena{graph, task};
    most = std::max(most, task.chunks * arena.outgoing_bytes + passes * arena.bytes);
  };
  auto const place = [&](bool const* places) {
    if (streams > 1) {
      Branches const at_once{graph, streams, segment};
      place_as(places, &at_once);
    } else {
      place_as(places, nullptr);
    }
  };
  place(in_place.data());

  detail::NodeReaders const readers{graph};
  detail::NodeCopies copy{graph};
  graph.node = copy.node;
  detail::Scratch<bool> const nowhere{graph.nodes};
  detail::fuse_relu_in(copy, readers);
  detail::materialise_flatten_in(copy);
  detail::place_concat_in(copy, readers);
  detail::NodeCopies fused{graph};
  bool again = detail::fuse_sum_in(fused, readers, segment);
  if (!task.apart) {
    again = detail::fuse_linear_in(fused, readers, segment) || again;
  }
  graph.node = fused.node;
  place(nowhere.data());

  graph.node = copy.node;
  if (!task.apart) {
    detail::absorb_bias_in(copy, readers);  // changes no gradient, but which convolutions merge
    again = detail::merge_pointwise_in(copy, readers, most_merged) || again;
  }
  if (again) {
    place(nowhere.data());
  }
  return most;
}

}  // namespace tandem
