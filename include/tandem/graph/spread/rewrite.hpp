// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// spread: the graph of one rank of several that share layers, which is the same for all of them:
/// shapes and parameters of its slices, and nodes where the ranks add what each has.
///
///   x -> Copy -> Linear (columns) -> … -> Linear (rows) -> Reduce -> Bias -> y
///   indices -> Embedding -> Reduce -> y       x -> Copy -> Vocabulary -> losses
///
/// and of Conv2ds as of Linears. A Copy and a Reduce are views: what they add up stays where it is.
/// A rank that has several slices has the nodes of each, and adds values and gradients of them in
/// the order of comm/fixed_tree.hpp, as ranks do that have one slice each:
///
///            ┌ Copy -> Linear -> … -> Linear ┐
///   x -> Copy                                 Add -> Reduce -> Bias -> y
///            └ Copy -> Linear -> … -> Linear ┘

#include <bit>
#include <cstddef>
#include <cstdint>

#include <tandem/graph/columns.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/spread/plan.hpp>
#include <tandem/graph/spread/spread.hpp>
#include <tandem/graph/spread/wishes.hpp>

namespace tandem {

/// How the layers of a graph are dealt out.
struct Dealing {
  int slices = 1;  ///< of each layer that is
  int own = 1;     ///< of these a rank has so many, one behind the other
  /// Layers that read one value have a Copy each, not one together: then the order of sums does
  /// not depend on where that value comes from.
  bool apart = false;
  SpreadWishes wishes{};  ///< as plan_spread() takes them
};

/// Of so many neighbours in a tree those of its left branch: see comm/fixed_tree.hpp.
constexpr int left_of(int span) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(span)) / 2);
}

namespace detail {

/// Walks over the nodes; without a graph to fill it counts.
template <class Whole>
class Spreader : GraphWriter {
 public:
  constexpr Spreader(Whole const& whole, Dealing const& dealing)
      : whole_{whole},
        plan_{plan_spread(whole, dealing.slices, dealing.wishes)},
        dealing_{dealing} {
    make_room(local_, whole.nodes);
    make_room(copied_, whole.nodes);
  }

  template <class G>
  constexpr GraphSize walk(G* to) {
    size_ = {};
    for (int n = 0; n < whole_.nodes; ++n) {
      local_[n] = copied_[n] = -1;
    }
    for (int n = 0; n < whole_.nodes; ++n) {
      Node const& node = whole_.node[n];
      Dealt const dealt = plan_.dealt[n];
      int copy = -1;  // in place of the node's own source
      if (spread_rule(dealt).in == spread_rule(Dealt::copy).out) {
        copy = copy_of(to, whole_.source[node.first_edge], n);
      }
      int const first = size_.nodes;
      for (int slice = 0; slice < (dealt == Dealt::whole ? 1 : dealing_.own); ++slice) {
        add_own(to, n, slice, copy);
      }
      local_[n] = first;
      if (spread_rule(dealt).out == spread_rule(Dealt::reduce).in) {
        local_[n] = add_joins(to, n, 0, dealing_.own);
        local_[n] = add_behind(to, NodeKind::reduce, n);
        if (dealt == Dealt::rows && node.parameters > 1) {
          local_[n] = add_behind(to, NodeKind::bias, n);
        }
      }
    }
    if (to != nullptr) {
      to->tops = whole_.tops;
      to->result = whole_.result < 0 ? -1 : local_[whole_.result];
    }
    return size_;
  }

 private:
  /// Parameter @p p of node @p n of the whole graph, as the node that comes next has it.
  template <class G>
  constexpr void add_parameter(G* to, int n, int p, ParameterSlices const& slices) {
    if (to != nullptr) {
      GraphParameter own = whole_.parameter[p];
      own.node = size_.nodes;
      own.whole = p;
      own.slices = slices;
      bool const is_table =
          plan_.dealt[n] == Dealt::embedding || plan_.dealt[n] == Dealt::vocabulary;
      int& extent = own.parameter.shape.extent[slices.axis];
      extent = is_table ? padded_slice(extent, slices.count) : extent / slices.count;
      to->parameter[size_.parameters] = own;
    }
    ++size_.parameters;
  }

  // The Copy of what node @p source makes, for node @p reader.
  template <class G>
  constexpr int copy_of(G* to, int source, int reader) {
    if (copied_[source] >= 0 && !dealing_.apart) {
      return copied_[source];
    }
    copied_[source] = size_.nodes;
    add_copies(to, source, reader, -1, 0, dealing_.own);
    return copied_[source];
  }
  // That of the slices from @p first on, which reads Copy @p from if there is one, and behind it
  // those of its halves, the first one's first.
  template <class G>
  constexpr void add_copies(G* to, int source, int reader, int from, int first, int span) {
    bool const all = from < 0;
    Node node = between(all ? NodeKind::copy : NodeKind::half, all ? Dealt::copy : Dealt::half,
                        whole_.node[source].out, reader);
    node.needs_gradient = whole_.node[source].needs_gradient;
    node.name = "Copy";
    node.sharing.slice = first;
    node.sharing.span = span;
    int const made = add(to, node, 1);
    add_edge(to, all ? local_[source] : from, whole_.edge_origin[whole_.node[reader].first_edge]);
    if (span > 1) {
      int const left = left_of(span);
      add_copies(to, source, reader, made, first, left);
      add_copies(to, source, reader, made, first + left, span - left);
    }
  }
  // Of the tree of Copies that begins with node @p copy: the one that slice @p slice reads.
  [[nodiscard]] constexpr int copy_for(int copy, int slice) const {
    for (int span = dealing_.own; span > 1;) {
      int const left = left_of(span);
      bool const goes_left = slice < left;
      copy += goes_left ? 1 : 2 * left;  // a tree of k leaves has 2 k - 1 nodes
      slice -= goes_left ? 0 : left;
      span = goes_left ? left : span - left;
    }
    return copy;
  }

  // The sum of the outputs of node @p n's slices from @p first on.
  template <class G>
  constexpr int add_joins(G* to, int n, int first, int span) {
    if (span == 1) {
      return local_[n] + first;
    }
    int const half = left_of(span);
    int const left = add_joins(to, n, first, half);
    int const right = add_joins(to, n, first + half, span - half);
    Node node = between(NodeKind::add, Dealt::join, whole_.node[n].out, n);
    node.view = false;
    node.needs_gradient = whole_.node[n].needs_gradient;
    node.name = "Add";
    node.sharing.slice = first;
    node.sharing.span = span;
    int const made = add(to, node, 2);
    add_edge(to, left, whole_.edge_origin[whole_.node[n].first_edge]);
    add_edge(to, right, whole_.edge_origin[whole_.node[n].first_edge]);
    return made;
  }

  // Behind node @p n, whose output is by now that of local_[n].
  template <class G>
  constexpr int add_behind(G* to, NodeKind kind, int n) {
    Node const& product = whole_.node[n];
    bool const reduces = kind == NodeKind::reduce;
    Node node = between(kind, reduces ? Dealt::reduce : Dealt::whole, product.out, n);
    node.needs_gradient = product.needs_gradient;
    node.name = reduces ? "Reduce" : "Bias";
    node.sharing.span = reduces ? dealing_.own : 1;
    if (!reduces) {
      node.view = false;
      node.frozen = product.frozen;
      node.first_parameter = size_.parameters;
      node.parameters = 1;
      add_parameter(to, n, product.first_parameter + 1, {});
    }
    int const made = add(to, node, 1);
    add_edge(to, local_[n], whole_.edge_origin[product.first_edge]);
    return made;
  }

  // A node of its own beside node @p n.
  [[nodiscard]] constexpr Node between(NodeKind kind, Dealt dealt, Shape shape, int n) const {
    Node const& beside = whole_.node[n];
    Node node{.kind = kind, .view = true};
    node.sharing.dealt = dealt;
    node.sharing.slices = dealt == Dealt::whole ? 1 : dealing_.slices;
    node.in = node.out = shape;
    node.origin = beside.origin;
    node.stage = beside.stage;
    node.top = beside.top;
    node.path = beside.path;
    node.kept = Kept::of(false, false);
    return node;
  }

  // Node @p n, or its slice @p slice of a rank's. @p copy begins what columns read.
  template <class G>
  constexpr void add_own(G* to, int n, int slice, int copy) {
    Node node = whole_.node[n];
    node.sharing.dealt = plan_.dealt[n];
    if (node.sharing.dealt != Dealt::whole) {
      int const slices = dealing_.slices;
      node.sharing.slices = slices;
      node.sharing.slice = slice;
      node.sharing.parts = plan_.parts[n];
      node.macs /= slices;
      node.kept.scalars /= slices;
      node.kept.numbers /= slices;
      node.kept.sums /= slices;
      node.sequence.hands_back /= slices;
      if (node.sharing.dealt == Dealt::rows || node.sharing.dealt == Dealt::inside) {
        node.in = slice_of(node.in);
      }
      if (node.sharing.dealt == Dealt::columns || node.sharing.dealt == Dealt::inside) {
        node.out = slice_of(node.out);
      }
      if (node.sharing.dealt == Dealt::vocabulary) {
        keep_words(node, whole_.node[n]);
      }
    }
    int const first = node.first_edge;
    int const edges = node.edges;
    int const first_parameter = node.first_parameter;
    node.first_parameter = size_.parameters;
    node.parameters = node.sharing.dealt == Dealt::rows ? 1 : node.parameters;
    for (int p = first_parameter; p < first_parameter + node.parameters; ++p) {
      add_parameter(to, n, p, slices_of(p, n, slice));
    }
    add(to, node, edges);
    for (int e = first; e < first + edges; ++e) {
      int const source = whole_.source[e];
      bool const is_slice =
          node.sharing.dealt == Dealt::inside || node.sharing.dealt == Dealt::rows;
      add_edge(to, copy >= 0 ? copy_for(copy, slice) : local_[source] + (is_slice ? slice : 0),
               whole_.edge_origin[e]);
    }
  }

  [[nodiscard]] constexpr Shape slice_of(Shape shape) const {
    shape.extent[column_axis(shape)] /= dealing_.slices;
    return shape;
  }

  // Of its logits, whose rows are padded; a Vocabulary that keeps none keeps four numbers of each
  // row, doubles.
  constexpr void keep_words(Node& node, Node const& whole) const {
    int const words = whole_.parameter[whole.first_parameter].parameter.shape[0];
    int const own = padded_slice(words, dealing_.slices);
    node.macs = whole.macs / words * own;
    node.kept.scalars = whole.kept.scalars / words * own;
    node.kept.numbers = whole.kept.scalars == 0 ? std::int64_t{node.in[0]} * 4 * 2 : 0;
  }

  // Of a product's weight (Out, In, …), and of its bias (Out) where its outputs are dealt out; of a
  // layer inside all (Out, …); of a table's (V, C), and (V).
  [[nodiscard]] constexpr ParameterSlices slices_of(int p, int n, int slice) const {
    if (plan_.dealt[n] == Dealt::embedding || plan_.dealt[n] == Dealt::vocabulary) {
      int const words = whole_.parameter[p].parameter.shape[0];
      return {dealing_.slices, 0, ColumnParts::whole(words), slice};
    }
    bool const rows = plan_.dealt[n] == Dealt::rows;
    if (!rows && plan_.dealt[n] != Dealt::columns && plan_.dealt[n] != Dealt::inside) {
      return {};
    }
    int const before = whole_.source[whole_.node[n].first_edge];
    ColumnParts const parts = rows ? plan_.parts[before] : plan_.parts[n];
    int const columns = whole_.parameter[p].parameter.shape[rows ? 1 : 0];
    return {dealing_.slices, rows ? 1 : 0, parts.count > 0 ? parts : ColumnParts::whole(columns),
            slice};
  }

  Whole const& whole_;
  SpreadPlan<Whole> plan_;
  Dealing dealing_;
  PerNode<int, Whole> local_ = {};   // of a node: where its output is, or that of its first slice
  PerNode<int, Whole> copied_ = {};  // of a node: its Copy, or -1
};

}  // namespace detail

/// How large spread() of @p graph is.
template <GraphSize Whole>
constexpr GraphSize spread_size(Graph<Whole> const& graph, Dealing const& dealing) {
  return detail::Spreader<Graph<Whole>>{graph, dealing}.walk(static_cast<Graph<Whole>*>(nullptr));
}

/// The graph of each rank.
/// @tparam Own  spread_size() of the same
template <GraphSize Own, GraphSize Whole>
constexpr Graph<Own> spread(Graph<Whole> const& graph, Dealing const& dealing) {
  Graph<Own> own;
  detail::Spreader<Graph<Whole>>{graph, dealing}.walk(&own);
  return own;
}

}  // namespace tandem
