// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stage: the passes over the nodes of one stage, straight-line code without a look-up.
///
/// Each pass is a function of its own, made of blocks of at most 128 nodes; a rank's loop over its
/// actions calls it with the microbatch as a run-time number.

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/ops/operand_table.hpp>
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

/// Whether one of nodes [first, last) of a device has statistics that are added over replicas.
template <class Program>
constexpr bool synchronizes(int first, int last) {
  bool any = false;
  for (int n = first; n < last; ++n) {
    any = any || (Program::batching.replicas > 1 && Program::graph.node[n].synchronizes);
  }
  return any;
}

/// What a backward pass computes.
enum class BackwardPart { whole, input_gradient, weight_gradient };

/// Nodes [First, Last) of a device's graph.
///
/// Where statistics are added over the replicas, a replica without samples has its passes called,
/// too: it adds zeros, and takes part in every collective in the order of the others.
/// @tparam Rank  has this as a friend, `ops_`, `outgoing(node)`, `bucket_ready(bucket,
/// leaf)`,
///               `finish_empty_bucket(bucket, adds, leaf)`, `synchronize(sums, local stage)`
template <class Rank, class Program, class Backend, int First, int Last>
struct Stage {
  using PassType = typename Rank::PassType;
  using Table = typename Rank::Table;
  static constexpr auto const& graph = Program::graph;
  static constexpr int block = 128;
  static constexpr auto uses = count_uses(graph);
  static constexpr bool synchronizes = tandem::synchronizes<Program>(First, Last);

  TANDEM_NOINLINE static void forward(Rank& rank, PassType const& pass, Table const& table) {
    forward_blocks(rank, pass, table, Blocks{});
  }

  /// What was not kept is computed again, run by run, and then goes backward, both gradients at
  /// once.
  /// @param leaf  the leaf that this microbatch finishes, or -1
  template <BackwardPart P = BackwardPart::whole>
  TANDEM_NOINLINE static void backward(Rank& rank, PassType const& pass, Table const& table,
                                       int leaf) {
    if constexpr (Program::segments.of[First] < 0) {
      backward_blocks<P>(rank, pass, table, leaf, Blocks{});
    } else {
      static_assert(P == BackwardPart::whole);
      recompute_and_back<Last>(rank, pass, table, leaf);
    }
  }

  /// After parameters have changed.
  TANDEM_NOINLINE static void pack(Rank& rank, Table const& table) {
    pack_blocks(rank, table, Blocks{});
  }

 private:
  using Blocks = std::make_integer_sequence<int, (Last - First + block - 1) / block>;
  static constexpr int block_end(int first) { return Last - first < block ? Last : first + block; }

  template <int... B>
  static void forward_blocks(Rank& rank, PassType const& pass, Table const& table,
                             std::integer_sequence<int, B...>) {
    (forward_nodes<First + B * block, block_end(First + B * block)>(rank, pass, table), ...);
  }
  template <int Begin, int End>
  static void forward_nodes(Rank& rank, PassType const& pass, Table const& table) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (forward_node<Begin + I>(rank, pass, table), ...);
    }
    (std::make_integer_sequence<int, End - Begin>{});
  }

  // Blocks and nodes in descending order.
  template <BackwardPart P, int... B>
  static void backward_blocks(Rank& rank, PassType const& pass, Table const& table, int leaf,
                              std::integer_sequence<int, B...>) {
    constexpr int last = static_cast<int>(sizeof...(B)) - 1;
    (backward_nodes<P, First + (last - B) * block, block_end(First + (last - B) * block)>(
         rank, pass, table, leaf),
     ...);
  }
  template <BackwardPart P, int Begin, int End>
  static void backward_nodes(Rank& rank, PassType const& pass, Table const& table, int leaf) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (backward_node<P, End - 1 - I>(rank, pass, table, leaf), ...);
    }
    (std::make_integer_sequence<int, End - Begin>{});
  }

  static constexpr int segment_begin(int end) {
    int begin = end - 1;
    while (begin > First && Program::segments.of[begin - 1] == Program::segments.of[end - 1]) {
      --begin;
    }
    return begin;
  }
  template <int End>
  static void recompute_and_back(Rank& rank, PassType const& pass, Table const& table, int leaf) {
    if constexpr (End > First) {
      constexpr int begin = segment_begin(End);
      forward_nodes<begin, End>(rank, pass, table);
      backward_nodes<BackwardPart::whole, begin, End>(rank, pass, table, leaf);
      recompute_and_back<begin>(rank, pass, table, leaf);
    }
  }

  template <int I>
  static void forward_node(Rank& rank, PassType const& pass, Table const& table) {
    constexpr Node const& node = graph.node[I];
    if constexpr (node.computes()) {
      auto& op = rank.ops_.template get<I>();
      if constexpr (tandem::synchronizes<Program>(I, I + 1)) {
        if (pass.training) {
          add_over_replicas(rank, pass, op.sums(table.operands[I]),
                            [&] { op.local_sums(table.operands[I], pass); });
          if (!is_empty(pass)) {
            op.forward_synchronized(table.operands[I], pass);
          }
          return;
        }
      }
      if (!is_empty(pass)) {
        op.forward(table.operands[I], pass);
      }
    }
  }

  // Without statistics of all replicas no such pass is called.
  static bool is_empty(PassType const& pass) { return synchronizes && pass.batch == 0; }

  template <class Sum>
  static void add_over_replicas(Rank& rank, PassType const& pass, std::span<double> sums,
                                Sum const& own) {
    constexpr int stage = [] {
      int local = 0;
      while (Program::stages.stage[local].first != First) {
        ++local;
      }
      return local;
    }();
    if (is_empty(pass)) {
      Verbs<Backend>::zero(pass.device, sums.data(), static_cast<std::int64_t>(sums.size()));
    } else {
      own();
    }
    rank.synchronize(sums, stage);
  }

  template <int... B>
  static void pack_blocks(Rank& rank, Table const& table, std::integer_sequence<int, B...>) {
    (pack_nodes<First + B * block, block_end(First + B * block)>(rank, table), ...);
  }
  template <int Begin, int End>
  static void pack_nodes(Rank& rank, Table const& table) {
    [&]<int... I>(std::integer_sequence<int, I...>) { (pack_node<Begin + I>(rank, table), ...); }
    (std::make_integer_sequence<int, End - Begin>{});
  }

  template <int I>
  static void pack_node(Rank& rank, Table const& table) {
    auto& op = rank.ops_.template get<I>();
    if constexpr (requires { op.pack(table.operands[I], rank.device_); }) {
      op.pack(table.operands[I], rank.device_);
    }
  }

  template <BackwardPart P, int I>
  static void backward_node(Rank& rank, PassType const& pass, Table const& table, int leaf) {
    constexpr Node const& node = graph.node[I];
    auto const& operands = table.operands[I];
    if constexpr (node.needs_gradient && P != BackwardPart::weight_gradient) {
      if (!is_empty(pass)) {
        add_forks<I>(rank, pass, table);
      }
      if constexpr (Program::gives_input_gradient.of[I]) {
        auto& op = rank.ops_.template get<I>();
        if constexpr (tandem::synchronizes<Program>(I, I + 1)) {
          add_over_replicas(rank, pass, op.sums(operands),
                            [&] { op.local_gradient_sums(operands, pass); });
          if (!is_empty(pass)) {
            op.input_gradient_synchronized(operands, pass);
          }
        } else if (!is_empty(pass)) {
          op.input_gradient(operands, pass);
        }
      }
    }
    if constexpr (node.needs_gradient && P != BackwardPart::input_gradient) {
      if constexpr (node.parameters > 0 && !node.frozen && node.computes()) {
        auto& op = rank.ops_.template get<I>();
        if (is_empty(pass)) {
        } else if constexpr (tandem::synchronizes<Program>(I, I + 1)) {
          op.weight_gradient_synchronized(operands, pass);
        } else {
          op.weight_gradient(operands, pass);
        }
      }
      if constexpr (constexpr int bucket = Program::layout.closes[I]; bucket >= 0) {
        if (is_empty(pass)) {
          rank.finish_empty_bucket(bucket, pass.accumulate, leaf);
        } else {
          rank.bucket_ready(bucket, leaf);
        }
      }
    }
  }

  // The gradient of a node's output from those that its readers gave it.
  template <int I>
  static void add_forks(Rank& rank, PassType const& pass, Table const& table) {
    constexpr Node const& node = graph.node[I];
    auto const* const forks = table.forks + table.first_fork[I];
    std::int64_t const elements = pass.batch * node.out.elements();
    if constexpr (node.kind == NodeKind::receive) {
      rank.template gather_outgoing<I>(forks, uses.of[I], elements);
    } else if constexpr (uses.of[I] > 1) {
      Verbs<Backend>::sum(pass.device, forks, uses.of[I], table.gradient[I], elements);
    }
  }
};

}  // namespace tandem
