// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stage: the passes of the nodes of one stage, straight-line code without a look-up.
///
/// Each pass is a function of its own, made of blocks of at most 128 nodes; a rank's loop over its
/// actions calls it with the microbatch as a run-time number.

#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

/// For each node of a graph, how many gradients its output gets.
template <int Nodes>
struct UseCounts {
  int of[Nodes] = {};
};

template <GraphSize Size>
constexpr UseCounts<Size.nodes> count_uses(Graph<Size> const& graph) {
  UseCounts<Size.nodes> uses;
  for (int n = 0; n < Size.nodes; ++n) {
    for (int e = 0; e < graph.node[n].edges && !graph.node[n].merged; ++e) {
      ++uses.of[graph.source[graph.node[n].first_edge + e]];
    }
  }
  return uses;
}

/// @tparam Rank  has this as a friend, `ops_`, `operands(node)`, `forks(node)`,
/// `gradient_of(node)`, `bucket_ready(bucket)`
template <class Rank, class Program, class Backend>
struct Stage {
  using PassType = typename Rank::PassType;
  static constexpr int nodes = Program::graph.nodes;
  static constexpr int block = 128;
  static constexpr auto uses = count_uses(Program::graph);

  TANDEM_NOINLINE static void forward(Rank& rank, PassType const& pass) {
    forward_blocks(rank, pass, std::make_integer_sequence<int, (nodes + block - 1) / block>{});
  }

  TANDEM_NOINLINE static void backward(Rank& rank, PassType const& pass) {
    backward_blocks(rank, pass, std::make_integer_sequence<int, (nodes + block - 1) / block>{});
  }

  /// After parameters have changed.
  TANDEM_NOINLINE static void pack(Rank& rank) {
    [&]<int... I>(std::integer_sequence<int, I...>) { (pack_node<I>(rank), ...); }
    (std::make_integer_sequence<int, nodes>{});
  }

 private:
  static constexpr int in_block(int first) { return nodes - first < block ? nodes - first : block; }

  template <int... B>
  static void forward_blocks(Rank& rank, PassType const& pass, std::integer_sequence<int, B...>) {
    (forward_block<B * block>(rank, pass, std::make_integer_sequence<int, in_block(B * block)>{}),
     ...);
  }
  template <int First, int... I>
  static void forward_block(Rank& rank, PassType const& pass, std::integer_sequence<int, I...>) {
    (forward_node<First + I>(rank, pass), ...);
  }

  // Blocks and nodes in descending order.
  template <int... B>
  static void backward_blocks(Rank& rank, PassType const& pass, std::integer_sequence<int, B...>) {
    constexpr int last = static_cast<int>(sizeof...(B)) - 1;
    (backward_block<(last - B) * block>(
         rank, pass, std::make_integer_sequence<int, in_block((last - B) * block)>{}),
     ...);
  }
  template <int First, int... I>
  static void backward_block(Rank& rank, PassType const& pass, std::integer_sequence<int, I...>) {
    constexpr int last = First + static_cast<int>(sizeof...(I)) - 1;
    (backward_node<last - I>(rank, pass), ...);
  }

  template <int I>
  static void forward_node(Rank& rank, PassType const& pass) {
    constexpr Node const& node = Program::graph.node[I];
    if constexpr (node.computes()) {
      rank.ops_.template get<I>().forward(rank.operands(I), pass);
    }
  }

  template <int I>
  static void pack_node(Rank& rank) {
    auto& op = rank.ops_.template get<I>();
    if constexpr (requires { op.pack(rank.operands(I), rank.device_); }) {
      op.pack(rank.operands(I), rank.device_);
    }
  }

  template <int I>
  static void backward_node(Rank& rank, PassType const& pass) {
    constexpr Node const& node = Program::graph.node[I];
    if constexpr (node.needs_gradient) {
      if constexpr (uses.of[I] > 1) {
        Verbs<Backend>::sum(pass.device, rank.forks(I), uses.of[I], rank.gradient_of(I),
                            pass.batch * node.out.elements());
      }
      if constexpr (gives_input_gradient(Program::graph, I)) {
        rank.ops_.template get<I>().input_gradient(rank.operands(I), pass);
      }
      if constexpr (node.parameters > 0 && !node.frozen && node.computes()) {
        rank.ops_.template get<I>().weight_gradient(rank.operands(I), pass);
      }
      if constexpr (Program::layout.closes[I] >= 0) {
        rank.bucket_ready(Program::layout.closes[I]);
      }
    }
  }
};

}  // namespace tandem
