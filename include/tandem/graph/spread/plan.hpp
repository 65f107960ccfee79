// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// plan_spread: which layers of a graph are dealt out over ranks: each Linear or Conv2d whose
/// output goes through layers that need no whole rows to another one, with all of these; and large
/// tables of words.
///
///   Embedding | Linear (columns) | Attention, activations, Dropout (inside) | Linear (rows)
///                                                                               | Vocabulary
///   Conv2d (columns) | BatchNorm2d, activations, pools, grouped Conv2d (inside) | Conv2d (rows)
///
/// All else stays whole. SpreadWishes overrule it.

#include <cstddef>
#include <cstdint>

#include <tandem/graph/columns.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/graph/spread/wishes.hpp>

namespace tandem {

/// Tables of words of as many numbers are dealt out, unless a wish says otherwise.
inline constexpr std::int64_t dealt_table_elements = std::int64_t{1} << 20;

/// Why a wish is none.
enum class WishFault : std::uint8_t {
  none,
  place,    ///< its place is none of a layer
  outputs,  ///< a layer that no rank can have a slice of the outputs of
  inputs,   ///< likewise of the inputs
  tied  ///< a table is to be whole for one of the layers that share it, and dealt out for another
};

/// How each node of a graph is dealt out.
template <class G>
struct SpreadPlan {
  int pairs = 0;   ///< of products
  int tables = 0;  ///< layers that have a slice of a table of words
  WishFault fault = WishFault::none;
  int wish = 0;  ///< at fault
  detail::PerNode<Dealt, G> dealt = {};
  detail::PerNode<ColumnParts, G> parts = {};  ///< of a row of its output
};

namespace detail {

/// Decides on tables, and then on pairs, from the first layer to the last; each node is looked at
/// three times at most.
template <class G>
class SpreadPlanner {
 public:
  constexpr SpreadPlanner(G const& graph, int slices, SpreadWishes const& wishes,
                          std::int16_t const* part = nullptr)
      : graph_{graph}, slices_{slices}, wishes_{wishes}, part_{part} {
    make_room(wish_, graph.nodes);
    make_room(shared_, graph.nodes);
    make_room(readers_, graph.nodes);
    make_room(last_reader_, graph.nodes);
    make_room(plan_.dealt, graph.nodes);
    make_room(plan_.parts, graph.nodes);
    for (int n = 0; n < graph.nodes; ++n) {
      for (int e = graph.node[n].first_edge; e < graph.node[n].first_edge + graph.node[n].edges;
           ++e) {
        ++readers_[graph.source[e]];
        last_reader_[graph.source[e]] = n;
      }
      bool const is_layer = graph_.node[n].kind == NodeKind::layer;  // no end of a transfer
      wish_[n] = is_layer ? wishes_.of(graph_.node[n].path) : Wish::none;
    }
    for (int p = 0; p < graph_.parameters; ++p) {
      if (graph.parameter[p].shared >= 0) {
        shared_[graph.parameter[p].node] = true;
        for (int owner = 0; owner < graph_.parameters; ++owner) {
          bool const is = graph.parameter[owner].origin == graph.parameter[p].shared;
          shared_[graph.parameter[owner].node] = shared_[graph.parameter[owner].node] || is;
        }
      }
    }
  }

  /// Which tables are dealt out of a network, all of whose layers are here.
  constexpr SpreadWishes decide() {
    for (int p = 0; p < graph_.parameters && !wishes_.decided; ++p) {
      if (graph_.parameter[p].shared < 0) {
        decide_table(p);
      }
    }
    wishes_.decided = true;
    return wishes_;
  }

  constexpr SpreadPlan<G> find() {
    if (graph_.fault != Fault::none) {
      return plan_;
    }
    decide();
    for (int n = 0; n < graph_.nodes; ++n) {
      if (has_table(n) && wishes_.has_table(graph_.parameter[first_parameter(n)].owner())) {
        ++plan_.tables;
        plan_.dealt[n] =
            graph_.node[n].layer == LayerKind::embedding ? Dealt::embedding : Dealt::vocabulary;
      }
    }
    for (bool const wished : {true, false}) {  // pairs that a wish names before the others
      for (int n = 0; n < graph_.nodes && (wishes_.count > 0 || !wished); ++n) {
        int const last = is_product(n) ? next_product(n) : -1;
        bool const named = wish_[n] == Wish::outputs || (last >= 0 && wish_[last] == Wish::inputs);
        if (last >= 0 && (named || !wished)) {
          deal(n, last);
        }
      }
    }
    check_wishes();
    return plan_;
  }

 private:
  [[nodiscard]] constexpr int first_parameter(int n) const {
    return graph_.node[n].first_parameter;
  }
  [[nodiscard]] constexpr bool has_table(int n) const {
    LayerKind const kind = graph_.node[n].layer;
    return (kind == LayerKind::embedding || kind == LayerKind::vocabulary) &&
           graph_.node[n].parameters > 0;
  }
  // Whether each of its outputs wants a whole row, and it may be dealt out.
  [[nodiscard]] constexpr bool is_product(int n) const {
    Node const& node = graph_.node[n];
    bool const product = node.layer == LayerKind::linear || is_convolution(node.layer);
    return product && !node.sharing.columns.any() && plan_.dealt[n] == Dealt::whole &&
           !shared_[n] && wish_[n] != Wish::whole;
  }
  // Whether it can be computed of some columns alone, with as much of each parameter.
  [[nodiscard]] constexpr bool is_divisible(int n) const {
    Node const& node = graph_.node[n];
    bool fits = node.sharing.columns.any() && !(shared_[n] && node.parameters > 0);
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      fits = fits && graph_.parameter[p].parameter.shape[0] == row_columns(node.out);
    }
    return fits;
  }
  constexpr void say(WishFault fault, int n) {
    if (plan_.fault == WishFault::none) {
      plan_.fault = fault;
      for (int i = 0; i < wishes_.count; ++i) {
        plan_.wish = wishes_.names(i, graph_.node[n].path) ? i : plan_.wish;
      }
    }
  }

  // Of parameter @p owner: all layers that have it must take words, and agree.
  constexpr void decide_table(int owner) {
    bool words = has_table(graph_.parameter[owner].node) &&
                 first_parameter(graph_.parameter[owner].node) == owner;
    if (!words) {
      return;
    }
    bool split = graph_.parameter[owner].parameter.shape.elements() >= dealt_table_elements;
    bool asked = false;
    bool whole = false;
    for (int p = owner; p < graph_.parameters; ++p) {
      if (graph_.parameter[p].owner() == graph_.parameter[owner].origin) {
        int const n = graph_.parameter[p].node;
        words = words && has_table(n) && first_parameter(n) == p;
        asked = asked || wish_[n] == table_wish(n);
        whole = whole || wish_[n] == Wish::whole;
        if (words && asked && whole) {
          say(WishFault::tied, n);
        }
      }
    }
    if (words && !whole && (split || asked)) {
      wishes_.add_table(graph_.parameter[owner].origin);
    }
  }
  [[nodiscard]] constexpr Wish table_wish(int n) const {
    return graph_.node[n].layer == LayerKind::embedding    ? Wish::inputs
           : graph_.node[n].layer == LayerKind::vocabulary ? Wish::outputs
                                                           : Wish::none;
  }

  // The one node that reads what node n makes, in the same stage; -1: there is none, or several.
  [[nodiscard]] constexpr int only_reader(int n) const {
    bool const one = readers_[n] == 1 && n != graph_.result && !graph_.node[n].named;
    int const next = last_reader_[n];
    bool const here = one && graph_.node[next].stage == graph_.node[n].stage &&
                      (part_ == nullptr || part_[next] == part_[n]) &&
                      graph_.node[next].edges == 1 && graph_.node[next].kind == NodeKind::layer;
    return here ? next : -1;
  }

  // The other one of the pair that node @p first would begin; -1: it cannot.
  [[nodiscard]] constexpr int next_product(int first) const {
    if (wish_[first] == Wish::inputs) {
      return -1;
    }
    ColumnParts now{};  // of the output of the last layer so far, where one says
    int last = only_reader(first);
    for (; last >= 0 && !is_product(last); last = only_reader(last)) {
      Node const& node = graph_.node[last];
      if (!is_divisible(last) || wish_[last] == Wish::whole ||
          (!node.sharing.columns.each &&
           ((now.count > 0 && !now.same_parts(node.sharing.columns.in)) ||
            !node.sharing.columns.in.divides(slices_)))) {
        return -1;
      }
      now = node.sharing.columns.each ? now : node.sharing.columns.out;
    }
    bool const fits = last >= 0 && wish_[last] != Wish::outputs && has_one_run(first, last) &&
                      wanted(first, last).divides(slices_) &&
                      (now.count == 0 || now.divides(slices_));
    return fits ? last : -1;
  }
  // Of channels a rank has neighbours alone.
  [[nodiscard]] constexpr bool has_one_run(int first, int last) const {
    return graph_.node[first].out.rank != 3 || wanted(first, last).count == 1;
  }
  // Parts of the output of a pair's first product: as a layer behind it says.
  [[nodiscard]] constexpr ColumnParts wanted(int first, int last) const {
    for (int n = only_reader(first); n != last; n = only_reader(n)) {
      if (!graph_.node[n].sharing.columns.each) {
        return graph_.node[n].sharing.columns.in;
      }
    }
    return ColumnParts::whole(row_columns(graph_.node[first].out));
  }

  constexpr void deal(int first, int last) {
    ++plan_.pairs;
    plan_.dealt[first] = Dealt::columns;
    plan_.parts[first] = wanted(first, last);
    for (int n = first, next = only_reader(n); next != last; n = next, next = only_reader(n)) {
      Columns const& columns = graph_.node[next].sharing.columns;
      plan_.dealt[next] = Dealt::inside;
      plan_.parts[next] = columns.each ? plan_.parts[n] : columns.out;
    }
    plan_.dealt[last] = Dealt::rows;
  }

  constexpr void check_wishes() {
    for (int n = 0; n < graph_.nodes; ++n) {
      Dealt const dealt = plan_.dealt[n];
      if (wish_[n] == Wish::outputs && dealt != Dealt::columns && dealt != Dealt::vocabulary) {
        say(WishFault::outputs, n);
      }
      if (wish_[n] == Wish::inputs && dealt != Dealt::rows && dealt != Dealt::embedding) {
        say(WishFault::inputs, n);
      }
    }
  }

  G const& graph_;
  int slices_;
  SpreadWishes wishes_;
  std::int16_t const* part_;
  PerNode<Wish, G> wish_ = {};
  PerNode<bool, G> shared_ = {};
  PerNode<int, G> readers_ = {};      // of a node: how many
  PerNode<int, G> last_reader_ = {};  // and the last of them
  SpreadPlan<G> plan_{};
};

}  // namespace detail

/// How @p graph is dealt out over @p slices ranks.
/// @param part    of each node: those of a pair are in one; null: of all nodes the same
/// @param wishes  of a part of a network those that decide_tables() has made of the network's
template <class G>
constexpr SpreadPlan<G> plan_spread(G const& graph, int slices,
                                    SpreadWishes const& wishes = SpreadWishes{},
                                    std::int16_t const* part = nullptr) {
  return detail::SpreadPlanner<G>{graph, slices, wishes, part}.find();
}

/// Whether the same is dealt out where a graph is cut into these parts.
template <class G>
constexpr bool keeps_pairs(G const& graph, int slices, SpreadWishes const& wishes,
                           std::int16_t const* part) {
  auto const whole = plan_spread(graph, slices, wishes);
  auto const cut = plan_spread(graph, slices, wishes, part);
  bool same = true;
  for (int n = 0; n < graph.nodes; ++n) {
    same = same && whole.dealt[n] == cut.dealt[n];
  }
  return same;
}

/// The wishes of @p network, with the tables that are dealt out: a part of it may not have all
/// layers that share one.
template <class G>
constexpr SpreadWishes decide_tables(G const& network, int slices, SpreadWishes const& wishes) {
  return detail::SpreadPlanner<G>{network, slices, wishes}.decide();
}

/// The first wish whose place is none of a layer of @p network, or -1.
constexpr int misplaced_wish(GraphView network, SpreadWishes const& wishes) {
  for (int i = 0; i < wishes.count; ++i) {
    bool found = false;
    for (int n = 0; n < network.nodes; ++n) {
      found = found ||
              (network.node[n].kind == NodeKind::layer && wishes.names(i, network.node[n].path));
    }
    if (!found) {
      return i;
    }
  }
  return -1;
}

}  // namespace tandem
