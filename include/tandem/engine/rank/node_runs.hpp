// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OpGroups, NodeRuns: which nodes of a graph have ops of one type, and which runs of nodes repeat,
/// so that a compiler sees each layer of a Transformer once, however many blocks it has.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/rounding.hpp>
#include <tandem/graph/graph.hpp>

namespace tandem {

/// The same of a node; `tiled` of one that joins statistics with other tiles.
constexpr Dealt own_op(Node const& node) {
  return node.joins_tiles() ? Dealt::tiled : own_op(node.dealt);
}

/// Nodes of a graph by the type of their op; inputs, views and what another node's op does have
/// none.
template <int Nodes>
struct OpGroups {
  int first[static_cast<std::size_t>(Nodes)] =
      {};  ///< of a node: the first one whose op has the same type; -1: it has no op
  int place[static_cast<std::size_t>(Nodes)] =
      {};                                          ///< of a node: how many of these stand before it
  int count = 0;                                   ///< groups
  int list[static_cast<std::size_t>(Nodes)] = {};  ///< of a group: its first node
  int size[static_cast<std::size_t>(Nodes)] = {};  ///< of a group
};

template <GraphSize Size>
constexpr OpGroups<Size.nodes> group_ops(Graph<Size> const& graph) {
  OpGroups<Size.nodes> groups;
  for (int n = 0; n < Size.nodes; ++n) {
    Node const& node = graph.node[n];
    groups.first[n] = -1;
    if (!node.computes()) {
      continue;
    }
    int g = 0;
    for (; g < groups.count; ++g) {
      Node const& other = graph.node[groups.list[g]];
      if (other.kind == node.kind && other.identity == node.identity &&
          own_op(other) == own_op(node)) {
        break;
      }
    }
    if (g == groups.count) {
      groups.list[groups.count++] = n;
    }
    groups.first[n] = groups.list[g];
    groups.place[n] = groups.size[g]++;
  }
  return groups;
}

namespace detail {

/// Once a program.
template <class Program>
inline constexpr auto op_groups = group_ops(Program::graph);

}  // namespace detail

/// For each node of a graph, how many gradients its output gets.
template <int Nodes>
struct UseCounts {
  int of[static_cast<std::size_t>(Nodes)] = {};
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

/// Whether the gradients of a node's output are added before it goes back.
constexpr bool adds_gradients(Node const& node, int uses) { return uses > 1 && !node.joined; }

/// What node @p n gives its only gradient, and so begins the sum of that over the ranks: a Copy or
/// an Enter; `layer` stands for neither. Siblings that became one node give one together.
template <GraphSize Size>
constexpr NodeKind begun_sum(Graph<Size> const& graph, UseCounts<Size.nodes> const& uses, int n) {
  Node const& node = graph.node[n];
  int const source = node.edges == 1 ? graph.source[node.first_edge] : n;
  Node const& before = graph.node[source];
  bool const sums = before.kind == NodeKind::copy || before.kind == NodeKind::enter;
  return sums && !node.merged && before.needs_gradient && uses.of[source] == 1 ? before.kind
                                                                               : NodeKind::layer;
}

/// Those of a named value come back from stage to stage, rounded at each; within a stage, too, so
/// that it does not matter where the network is cut.
constexpr Rounding rounding_of(Node const& node) {
  return node.named ? Rounding::each : Rounding::once;
}

/// Nodes [first, first + period), and as many more behind them as they are repeated.
struct NodeRun {
  int first = 0;
  int period = 1;
  int times = 1;
};

/// Runs that cover some nodes, in order.
template <int Most>
struct NodeRuns {
  int count = 0;
  NodeRun run[static_cast<std::size_t>(Most > 0 ? Most : 1)] = {};
};

/// A number for each node of a device: alike where its passes are the same code.
template <int Nodes>
struct NodeKeys {
  int of[static_cast<std::size_t>(Nodes)] = {};
};

template <class Program>
constexpr auto node_keys(OpGroups<Program::graph.nodes> const& groups,
                         UseCounts<Program::graph.nodes> const& uses) {
  NodeKeys<Program::graph.nodes> keys;
  for (int n = 0; n < Program::graph.nodes; ++n) {
    Node const& node = Program::graph.node[n];
    int key = 128 * (groups.first[n] + 1) + node.in.clock;
    for (bool const is :
         {node.needs_gradient, node.frozen, node.parameters > 0, node.synchronizes,
          Program::gives_input_gradient.of[n], adds_gradients(node, uses.of[n]),
          node.kind == NodeKind::copy, node.kind == NodeKind::reduce, node.dealt == Dealt::between,
          begun_sum(Program::graph, uses, n) == NodeKind::copy,
          begun_sum(Program::graph, uses, n) == NodeKind::enter, node.joins_tiles()}) {
      key = 2 * key + (is ? 1 : 0);
    }
    // What computes nothing stands alone, but for a layer that has become part of another.
    bool const alone = groups.first[n] < 0 && !(node.view && node.parameters == 0);
    keys.of[n] = alone ? -1 - n : key;
  }
  return keys;
}

/// Most nodes that are repeated together, and that a compiler sees in one function: a Transformer's
/// block of a device with four slices of each layer has 52.
inline constexpr int longest_period = 128;

/// Those of nodes [Begin, End): the longest repetition at each place, of at most longest_period
/// nodes; of what is not repeated as many make one run.
template <int Begin, int End, int Nodes>
constexpr NodeRuns<End - Begin> find_runs(NodeKeys<Nodes> const& keys) {
  NodeRuns<End - Begin> runs;
  for (int n = Begin; n < End;) {
    NodeRun best{.first = n};
    for (int period = 1; period <= longest_period && n + 2 * period <= End; ++period) {
      int same = 0;
      while (n + period + same < End && keys.of[n + same] == keys.of[n + period + same]) {
        ++same;
      }
      int const times = 1 + same / period;
      if (times > 1 && times * period > best.times * best.period) {
        best = {n, period, times};
      }
    }
    if (best.times == 1 && runs.count > 0 && runs.run[runs.count - 1].times == 1 &&
        runs.run[runs.count - 1].period < longest_period) {
      ++runs.run[runs.count - 1].period;
    } else {
      runs.run[runs.count++] = best;
    }
    n += best.times > 1 ? best.period * best.times : 1;
  }
  return runs;
}

/// Neighbouring runs, taken together while they have at most longest_period nodes between them:
/// runs [first[b], first[b + 1]) of block b.
template <int Most>
struct RunBlocks {
  int count = 0;
  int first[static_cast<std::size_t>(Most) + 1] = {};
};

template <int Most>
constexpr RunBlocks<Most> block_runs(NodeRuns<Most> const& runs) {
  RunBlocks<Most> blocks;
  for (int r = 0, nodes = longest_period; r < runs.count; ++r) {
    nodes += runs.run[r].period;
    if (nodes > longest_period) {
      blocks.first[blocks.count++] = r;
      nodes = runs.run[r].period;
    }
  }
  blocks.first[blocks.count] = runs.count;
  return blocks;
}

namespace detail {

/// f(I, N) of a run's nodes: N is the node, I one whose passes are the same code. What is not
/// repeated is known to the compiler, as I is.
template <int First, int Period, int Times, class F>
TANDEM_INLINE void each_of_run(F const& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    if constexpr (Times == 1) {
      (f(std::integral_constant<int, First + I>{}, std::integral_constant<int, First + I>{}), ...);
    } else {
      for (int n = First; n < First + Times * Period; n += Period) {
        (f(std::integral_constant<int, First + I>{}, n + I), ...);
      }
    }
  }
  (std::make_integer_sequence<int, Period>{});
}
template <int First, int Period, int Times, class F>
TANDEM_INLINE void each_of_run_back(F const& f) {
  constexpr int last = First + Period - 1;
  [&]<int... I>(std::integer_sequence<int, I...>) {
    if constexpr (Times == 1) {
      (f(std::integral_constant<int, last - I>{}, std::integral_constant<int, last - I>{}), ...);
    } else {
      for (int n = First + Times * Period - 1; n >= First; n -= Period) {
        (f(std::integral_constant<int, last - I>{}, n - I), ...);
      }
    }
  }
  (std::make_integer_sequence<int, Period>{});
}

}  // namespace detail

/// The same of the nodes of runs [First, Last) of @p Runs, a NodeRuns, in order.
template <auto const& Runs, int First = 0, int Last = Runs.count, class F>
TANDEM_INLINE void each_node(F const& f) {
  [&]<int... R>(std::integer_sequence<int, R...>) {
    (detail::each_of_run<Runs.run[First + R].first, Runs.run[First + R].period,
                         Runs.run[First + R].times>(f),
     ...);
  }
  (std::make_integer_sequence<int, Last - First>{});
}
/// From the last to the first.
template <auto const& Runs, int First = 0, int Last = Runs.count, class F>
TANDEM_INLINE void each_node_back(F const& f) {
  [&]<int... R>(std::integer_sequence<int, R...>) {
    (detail::each_of_run_back<Runs.run[Last - 1 - R].first, Runs.run[Last - 1 - R].period,
                              Runs.run[Last - 1 - R].times>(f),
     ...);
  }
  (std::make_integer_sequence<int, Last - First>{});
}

}  // namespace tandem
