// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rewrites: functions from graph to graph that suit a graph to a backend's kernels.
///
/// They keep every node, its index, its parameters and its edges, so that names, random numbers and
/// buckets are those of the network as the user wrote it; only what a node's op does, and where its
/// output stands, changes.

#include <cstddef>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/rewrites.hpp>
#include <tandem/graph/runtime_graph.hpp>

namespace tandem {

/// Whether a Flatten would change the order of elements in memory where channels come last: (H, W,
/// C) is not (C, H, W) where there are several channels and several pixels.
constexpr bool flatten_reorders(Node const& node) {
  return node.layer == LayerKind::flatten && node.in.rank == 3 && node.in[0] > 1 &&
         node.in[1] * node.in[2] > 1;
}

/// Convolutions that become one, at most.
inline constexpr int most_merged = 8;

namespace detail {

/// For each node, how many edges carry its output, and the node that the last of them leads to.
template <class G>
struct Readers {
  PerNode<int, G> count{};
  PerNode<int, G> last{};

  constexpr explicit Readers(G const& graph) {
    make_room(count, graph.nodes);
    make_room(last, graph.nodes);
    for (int n = 0; n < graph.nodes; ++n) {
      for (int e = 0; e < graph.node[n].edges; ++e) {
        int const source = graph.source[graph.node[n].first_edge + e];
        ++count[source];
        last[source] = n;
      }
    }
  }
};

// Of the rewrites below: @p graph has nodes, their number and the sources of edges; @p readers is
// as Readers. Each gives whether it has changed anything.

template <class AnyGraph, class AnyReaders>
constexpr bool fuse_relu_in(AnyGraph& graph, AnyReaders const& readers) {
  bool any = false;
  for (int n = 1; n < graph.nodes; ++n) {
    if (graph.node[n].layer != LayerKind::relu) {
      continue;
    }
    int const source = graph.source[graph.node[n].first_edge];
    Node& before = graph.node[source];
    if (before.layer == LayerKind::batch_norm && readers.count[source] == 1) {
      before.fusion.relu = true;
      graph.node[n].view = true;
      any = true;
    }
  }
  return any;
}

/// @param segment  of each node: its run of nodes that is computed again; null: none is
template <class AnyGraph, class AnyReaders>
constexpr bool fuse_linear_in(AnyGraph& graph, AnyReaders const& readers, int const* segment) {
  // The only reader of node n, if it is on the same side of all cuts; else 0, which reads nothing.
  auto const reader = [&](int n) {
    int const next = readers.last[n];
    bool const near = readers.count[n] == 1 && graph.node[next].stage == graph.node[n].stage &&
                      (segment == nullptr || segment[next] == segment[n]);
    return near ? next : 0;
  };
  bool any = false;
  for (int n = 1; n < graph.nodes; ++n) {
    int const next = graph.node[n].layer == LayerKind::linear ? reader(n) : 0;
    Node& activation = graph.node[next];
    if (activation.layer != LayerKind::relu && activation.layer != LayerKind::gelu_tanh) {
      continue;
    }
    any = true;
    graph.node[n].fusion.relu = activation.layer == LayerKind::relu;
    graph.node[n].fusion.gelu = !graph.node[n].fusion.relu;
    if (Node& behind = graph.node[reader(next)];
        graph.node[n].fusion.gelu && behind.layer == LayerKind::linear) {
      activation.view = true;
      behind.fusion.activated_by = n;
    } else {
      activation.fusion.home = n;
      activation.fusion.activated_by = n;
    }
  }
  return any;
}

/// @param segment  as above
template <class AnyGraph, class AnyReaders>
constexpr bool fuse_sum_in(AnyGraph& graph, AnyReaders const& readers, int const* segment) {
  auto const near = [&](int a, int b) {
    return graph.node[a].stage == graph.node[b].stage &&
           (segment == nullptr || segment[a] == segment[b]);
  };
  bool any = false;
  for (int n = 1; n + 1 < graph.nodes; ++n) {
    Node& sum = graph.node[n];
    Node& norm = graph.node[n + 1];
    if (sum.kind != NodeKind::add || norm.layer != LayerKind::row_norm ||
        graph.source[norm.first_edge] != n || !near(n, n + 1)) {
      continue;
    }
    any = true;
    norm.fusion.sums = n;
    sum.fusion.summed_by = n + 1;
    sum.fusion.joined = readers.count[n] == 2 && !sum.named && readers.last[n] > n + 1 &&
                        graph.node[readers.last[n]].stage == sum.stage;
    int const first = graph.source[sum.first_edge];
    Node& dropout = graph.node[first];
    if (dropout.layer == LayerKind::dropout && readers.count[first] == 1 && near(first, n)) {
      int const source = graph.source[dropout.first_edge];
      if (!graph.node[source].is_end() && near(source, first)) {
        dropout.fusion.home = source;
        dropout.fusion.summed_by = n + 1;
      }
    }
  }
  return any;
}

template <class AnyGraph>
constexpr bool materialise_flatten_in(AnyGraph& graph) {
  bool any = false;
  for (int n = 1; n < graph.nodes; ++n) {
    if (flatten_reorders(graph.node[n])) {
      graph.node[n].view = false;
      any = true;
    }
  }
  return any;
}

template <class AnyGraph, class AnyReaders>
constexpr bool absorb_bias_in(AnyGraph& graph, AnyReaders const& readers) {
  bool any = false;
  for (int n = 1; n < graph.nodes; ++n) {
    Node& convolution = graph.node[n];
    if (!is_convolution(convolution.layer) || convolution.parameters != 2 || convolution.frozen ||
        readers.count[n] != 1) {
      continue;
    }
    Node& norm = graph.node[readers.last[n]];
    if (norm.layer == LayerKind::batch_norm && norm.normalizes && norm.stage == convolution.stage) {
      convolution.fusion.absorbed = true;
      norm.fusion.absorbs = n;
      any = true;
    }
  }
  return any;
}

template <class AnyGraph, class AnyReaders>
constexpr bool merge_pointwise_in(AnyGraph& graph, AnyReaders const& readers, int most) {
  auto const fits = [&](int n) {
    Node const& node = graph.node[n];
    return node.layer == LayerKind::pointwise && node.fusion.home < 0 && node.fusion.width == 0 &&
           readers.count[n] == 1 && graph.node[readers.last[n]].layer == LayerKind::batch_norm;
  };
  bool any = false;
  for (int first = 1; first < graph.nodes; ++first) {
    if (!fits(first)) {
      continue;
    }
    Node& leader = graph.node[first];
    int const input = graph.source[leader.first_edge];
    int width = leader.out[0];
    int count = 1;
    for (int n = first + 1; n <= readers.last[input] && count < most; ++n) {
      Node& node = graph.node[n];
      if (fits(n) && graph.source[node.first_edge] == input &&
          node.parameters == leader.parameters && node.frozen == leader.frozen &&
          node.stage == leader.stage && node.fusion.absorbed == leader.fusion.absorbed) {
        node.fusion.merged = true;
        node.fusion.home = first;
        node.fusion.first_channel = width;
        width += node.out[0];
        ++count;
      }
    }
    leader.fusion.width = count > 1 ? width : 0;
    any = any || count > 1;
  }
  return any;
}

template <class AnyGraph, class AnyReaders>
constexpr bool place_concat_in(AnyGraph& graph, AnyReaders const& readers) {
  // The node that writes the output of n, or -1.
  auto const writer = [&](int n) {
    for (; graph.node[n].view; n = graph.source[graph.node[n].first_edge]) {
      if (readers.count[n] != 1) {
        return -1;
      }
    }
    Node const& node = graph.node[n];
    bool const writes_slices =
        node.layer == LayerKind::batch_norm || node.layer == LayerKind::pool || node.fusion.placed;
    return writes_slices && node.fusion.home < 0 && readers.count[n] == 1 ? n : -1;
  };
  bool any = false;
  for (int n = 1; n < graph.nodes; ++n) {
    Node& join = graph.node[n];
    bool all = join.kind == NodeKind::concat && join.out.rank == 3;
    for (int e = 0; all && e < join.edges; ++e) {
      all = writer(graph.source[join.first_edge + e]) >= 0;
    }
    if (!all) {
      continue;
    }
    join.fusion.placed = true;
    any = true;
    int channel = 0;
    for (int e = 0; e < join.edges; ++e) {
      Node& node = graph.node[writer(graph.source[join.first_edge + e])];
      node.fusion.home = n;
      node.fusion.first_channel = channel;
      channel += node.out[0];
    }
  }
  return any;
}

/// Every rewrite that @p rewrites asks for, in the order in which backends expect them.
template <class AnyGraph, class AnyReaders>
constexpr void rewrite_in(AnyGraph& graph, AnyReaders const& readers, Rewrites rewrites,
                          int const* segment) {
  if (rewrites.fuse_relu) {
    fuse_relu_in(graph, readers);
  }
  if (rewrites.fuse_linear) {
    fuse_linear_in(graph, readers, segment);
  }
  if (rewrites.fuse_sum) {
    fuse_sum_in(graph, readers, segment);
  }
  if (rewrites.channels_last) {
    materialise_flatten_in(graph);
  }
  if (rewrites.absorb_bias) {
    absorb_bias_in(graph, readers);
  }
  if (rewrites.merge_pointwise) {
    merge_pointwise_in(graph, readers, most_merged);
  }
  if (rewrites.place_concat) {
    place_concat_in(graph, readers);
  }
}

}  // namespace detail

/// Marks each batch norm whose only reader is a ReLU, which becomes a view of its output.
template <GraphSize Size>
constexpr Graph<Size> fuse_relu(Graph<Size> graph) {
  detail::fuse_relu_in(graph, detail::Readers{graph});
  return graph;
}

/// Lets each Linear apply the ReLU or GeluTanh that is its only reader; the output of both is the
/// activation's. Where the only reader of a GeluTanh is a Linear, that one's input gradient takes
/// in the activation's, which becomes a view; else its op computes that and nothing more.
template <GraphSize Size>
constexpr Graph<Size> fuse_linear(Graph<Size> graph, int const* segment = nullptr) {
  detail::fuse_linear_in(graph, detail::Readers{graph}, segment);
  return graph;
}

/// Lets a norm of rows behind the sum of a Residual compute that first, and the dropout that ends
/// its body: the sum is written by the norm's op where it would be; what is dropped is nowhere.
/// Where one more node reads the sum, the norm's input gradient is added to what that one gave.
template <GraphSize Size>
constexpr Graph<Size> fuse_sum(Graph<Size> graph, int const* segment = nullptr) {
  detail::fuse_sum_in(graph, detail::Readers{graph}, segment);
  return graph;
}

/// Makes each Flatten a copy that would change the order of elements in memory.
template <GraphSize Size>
constexpr Graph<Size> materialise_flatten(Graph<Size> graph) {
  detail::materialise_flatten_in(graph);
  return graph;
}

/// Frees each convolution from its bias, in training, whose only reader is a batch norm of the same
/// stage with statistics of the microbatch: the mean takes every constant out again, so that the
/// output does not depend on the bias and the bias's gradient is 0. What does depend on it, the
/// running mean, gets it from the batch norm.
template <GraphSize Size>
constexpr Graph<Size> absorb_bias(Graph<Size> graph) {
  detail::absorb_bias_in(graph, detail::Readers{graph});
  return graph;
}

/// Makes sibling 1x1 convolutions of one input one: the first computes all, side by side in one
/// wide memory of which each output is a slice. Each may be read by one batch norm only, since that
/// is what reads slices.
/// @param most  convolutions that become one
template <GraphSize Size>
constexpr Graph<Size> merge_pointwise(Graph<Size> graph, int most = most_merged) {
  detail::merge_pointwise_in(graph, detail::Readers{graph}, most);
  return graph;
}

/// Lets the inputs of each Concat be written into its output, slices of channels, where all of them
/// are read by nobody else and come from ops that can: batch norm, pools, and such Concats.
template <GraphSize Size>
constexpr Graph<Size> place_concat(Graph<Size> graph) {
  detail::place_concat_in(graph, detail::Readers{graph});
  return graph;
}

/// All that @p rewrites asks for.
/// @param segment  of each node: its run of nodes that is computed again; null: none is
template <GraphSize Size>
constexpr Graph<Size> rewrite(Graph<Size> graph, Rewrites rewrites, int const* segment = nullptr) {
  detail::rewrite_in(graph, detail::Readers{graph}, rewrites, segment);
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
