// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ValueSizes, KeptNodes, PassingValues: which values of a device's graph outlive their pass, and
/// what they take, before there are ops.

#include <algorithm>
#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/graph/branches.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/strategy/memory/buffer_sizes.hpp>
#include <tandem/strategy/memory/first_fit.hpp>

namespace tandem::detail {

/// Sizes of the values of a device's graph.
struct ValueSizes {
  BufferSizes sizes;
  int const* segment;
  std::int64_t master_bytes;
  Scratch<int> uses;   // edges that carry a node's output
  Scratch<bool> lent;  // its memory is that of the ReLU that reads it
  Scratch<bool> read;  // backward, another run or another device reads its output, perhaps
  Scratch<bool> sure;  // one of them does

  constexpr ValueSizes(BufferSizes const& own, int const* segments, std::int64_t masters)
      : sizes{own},
        segment{segments},
        master_bytes{masters},
        uses{own.graph.nodes},
        lent{own.graph.nodes},
        read{own.graph.nodes},
        sure{own.graph.nodes} {
    GraphView const& graph = sizes.graph;
    for (int e = 0; e < graph.edges; ++e) {
      ++uses[graph.source[e]];
    }
    for (int n = 0; n < graph.nodes; ++n) {
      find_readers(n);
    }
    for (int n = 0; n < graph.nodes; ++n) {
      if (graph.node[n].layer == LayerKind::relu) {
        int const source = graph.source[graph.node[n].first_edge];
        lent[source] = uses[source] == 1 && graph.node[source].layer == LayerKind::batch_norm &&
                       graph.node[source].stage == graph.node[n].stage &&
                       segment[source] == segment[n];
      }
    }
  }

  /// Whether an output has memory of its own.
  [[nodiscard]] constexpr bool stored(int n) const {
    Node const& node = sizes.graph.node[n];
    return node.kind == NodeKind::receive ||
           (!node.is_end() && (!node.view || flatten_reorders(node)) && !lent[n]);
  }
  /// Of a node's output, where it is read.
  [[nodiscard]] constexpr std::int64_t of(int n) const {
    return stored(n) && read[n] ? sizes.bytes(n) : 0;
  }
  /// What its op saves: the winners of a pool, the statistics of a batch norm (a few numbers a
  /// channel), what a layer says.
  [[nodiscard]] constexpr std::int64_t saved(int n) const {
    Node const& node = sizes.graph.node[n];
    std::int64_t const winners =
        node.layer == LayerKind::pool ? aligned(node.out.elements() * sizes.batch * 4) : 0;
    std::int64_t const statistics =
        node.layer == LayerKind::batch_norm ? aligned(64 * (node.in[0] + 2)) : 0;
    std::int64_t const numbers = sizes.batch * node.kept.numbers + node.kept.sums;
    return winners + statistics + (node.kept.arrays - 1) * aligned(1) +
           aligned(sizes.batch * node.kept.scalars * sizes.element_bytes + numbers * master_bytes);
  }
  /// Gradients that are sent.
  [[nodiscard]] constexpr std::int64_t outgoing(bool apart) const {
    std::int64_t sum = 0;
    for (int n = 0; n < sizes.graph.nodes; ++n) {
      Node const& node = sizes.graph.node[n];
      bool const sent = node.kind == NodeKind::receive && node.needs_gradient;
      sum += sent ? sizes.bytes(n) * (apart && !node.named ? uses[n] : 1) : 0;
    }
    return sum;
  }

 private:
  constexpr void find_readers(int n) {
    GraphView const& graph = sizes.graph;
    Node const& node = graph.node[n];
    bool const known = node.kept.known || node.kind == NodeKind::add;  // which reads nothing
    int const root = root_of(graph, n);
    bool const own = n == graph.result || node.kind == NodeKind::receive;
    read[n] = read[n] || own || !known || node.kept.output;  // a view may have memory of its own
    sure[n] = sure[n] || own || (known && node.kept.known && node.kept.output);
    read[root] = read[root] || read[n];
    sure[root] = sure[root] || sure[n];
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      int const source = root_of(graph, graph.source[e]);
      bool const leaves = node.kind == NodeKind::send || graph.node[source].stage != node.stage ||
                          segment[source] != segment[n];
      bool const said = node.kept.known && node.kept.input;
      read[source] = read[source] || leaves || !known || said;
      sure[source] = sure[source] || leaves || said;
    }
  }
};

/// Whether a value is kept under a CheckpointRule: it is read beyond its run of nodes.
struct KeptNodes {
  Scratch<bool> of;

  constexpr KeptNodes(GraphView graph, int const* segment) : of{graph.nodes} {
    for (int n = 0; n < graph.nodes; ++n) {
      bool const received = graph.node[n].kind == NodeKind::receive;
      of[n] = of[n] || segment[n] < 0 || received || n == graph.result;
      for (int e = graph.node[n].first_edge, end = e + graph.node[n].edges; e < end; ++e) {
        int const source = root_of(graph, graph.source[e]);
        bool const leaves = graph.node[n].kind == NodeKind::send;
        of[source] = of[source] || leaves || segment[source] != segment[n];
      }
    }
  }
};

/// Values that nobody reads once the next nodes have, where lives that do not meet share memory: at
/// most, whatever layers work in place. Where branches run at the same time, what their region has
/// lives as long as the region.
struct PassingValues {
  std::int64_t bytes = 0;
  bool again = false;  ///< some are computed again while gradients live

  /// @param at_once  branches that run at the same time; null: none do
  constexpr PassingValues(ValueSizes const& value, KeptNodes const& kept,
                          Branches const* at_once = nullptr) {
    GraphView const& graph = value.sizes.graph;
    Scratch<int> last{graph.nodes};
    for (int n = 0; n < graph.nodes; ++n) {
      last[n] = n;
      for (int e = graph.node[n].first_edge, end = e + graph.node[n].edges; e < end; ++e) {
        last[root_of(graph, graph.source[e])] = n;
      }
    }
    FirstFit place{graph.nodes};
    for (int n = 0; n < graph.nodes; ++n) {
      bool const repeats = value.segment[n] >= 0 && !kept.of[n];
      if (value.stored(n) && !(repeats ? value.sure[n] : value.read[n])) {
        place.place(value.sizes.bytes(n), at_once != nullptr ? at_once->first[n] : n,
                    at_once != nullptr ? at_once->last[last[n]] : last[n]);
        again = again || repeats;
      }
    }
    bytes = place.peak();
  }
};

}  // namespace tandem::detail
