// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// plan_spread: which layers of a graph are dealt out over ranks: each Linear whose output goes
/// through layers that need no whole rows to another Linear, with all of these.
///
///   Linear (columns) | Attention, activations, Dropout (inside) | Linear (rows)
///
/// All else stays whole.

#include <cstddef>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/rewrite.hpp>

namespace tandem {

/// How each node of a graph is dealt out.
template <int Nodes>
struct SpreadPlan {
  int pairs = 0;  ///< of Linears
  Dealt dealt[static_cast<std::size_t>(Nodes)] = {};
  ColumnParts parts[static_cast<std::size_t>(Nodes)] = {};  ///< of a row of its output
};

namespace detail {

/// Finds the pairs from the first layer to the last; each node is looked at twice at most.
template <GraphSize Size>
class PairFinder {
 public:
  constexpr PairFinder(Graph<Size> const& graph, int slices)
      : graph_{graph}, readers_{graph}, slices_{slices} {
    for (int p = 0; p < Size.parameters; ++p) {
      if (graph.parameter[p].shared >= 0) {
        shared_[graph.parameter[p].node] = true;
        for (int owner = 0; owner < Size.parameters; ++owner) {
          bool const is = graph.parameter[owner].origin == graph.parameter[p].shared;
          shared_[graph.parameter[owner].node] = shared_[graph.parameter[owner].node] || is;
        }
      }
    }
  }

  constexpr SpreadPlan<Size.nodes> find() {
    for (int n = 0; n < Size.nodes && graph_.fault == Fault::none; ++n) {
      if (is_linear(n)) {
        follow(n);
      }
    }
    return plan_;
  }

 private:
  [[nodiscard]] constexpr bool is_linear(int n) const {
    return graph_.node[n].layer == LayerKind::linear && plan_.dealt[n] == Dealt::whole &&
           !shared_[n];
  }
  // The one node that reads what node n makes, in the same stage; -1: there is none, or several.
  [[nodiscard]] constexpr int only_reader(int n) const {
    bool const one = readers_.count[n] == 1 && n != graph_.result && !graph_.node[n].named;
    int const next = readers_.last[n];
    bool const here = one && graph_.node[next].stage == graph_.node[n].stage &&
                      graph_.node[next].edges == 1 && graph_.node[next].kind == NodeKind::layer;
    return here ? next : -1;
  }

  constexpr void follow(int first) {
    ColumnParts wanted{};  // of the first Linear's output, where a layer behind it says
    ColumnParts now{};     // of that of the last layer so far
    int last = only_reader(first);
    for (; last >= 0 && !is_linear(last); last = only_reader(last)) {
      Node const& node = graph_.node[last];
      if (node.parameters > 0 || (!node.columns.each && node.columns.in.count == 0)) {
        return;
      }
      if (!node.columns.each) {
        if (now.count > 0 && now != node.columns.in) {
          return;
        }
        wanted = wanted.count == 0 ? node.columns.in : wanted;
        now = node.columns.out;
        if (!node.columns.in.divides(slices_)) {
          return;
        }
      }
    }
    Shape const& row = graph_.node[first].out;
    wanted = wanted.count == 0 ? ColumnParts::whole(row[row.rank - 1]) : wanted;
    if (last < 0 || !wanted.divides(slices_) || !(now.count == 0 || now.divides(slices_))) {
      return;
    }
    ++plan_.pairs;
    plan_.dealt[first] = Dealt::columns;
    plan_.parts[first] = wanted;
    for (int n = first, next = only_reader(n); next != last; n = next, next = only_reader(n)) {
      Columns const& columns = graph_.node[next].columns;
      plan_.dealt[next] = Dealt::inside;
      plan_.parts[next] = columns.each ? plan_.parts[n] : columns.out;
    }
    plan_.dealt[last] = Dealt::rows;
  }

  Graph<Size> const& graph_;
  Readers<Size> readers_;
  int slices_;
  bool shared_[static_cast<std::size_t>(Size.nodes)] = {};
  SpreadPlan<Size.nodes> plan_{};
};

}  // namespace detail

/// How @p graph is dealt out over @p slices ranks.
template <GraphSize Size>
constexpr SpreadPlan<Size.nodes> plan_spread(Graph<Size> const& graph, int slices) {
  return detail::PairFinder<Size>{graph, slices}.find();
}

}  // namespace tandem
