// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// spread: the graph of one rank of several that share layers, which is the same for all of them:
/// shapes and parameters of its slices, and nodes where the ranks add what each has.
///
///   x -> Copy -> Linear (columns) -> … -> Linear (rows) -> Reduce -> Bias -> y
///   indices -> Embedding -> Reduce -> y       x -> Copy -> Vocabulary -> losses
///
/// Layers that read one value share a Copy. A Copy and a Reduce are views: what they add up stays
/// where it is.

#include <cstddef>
#include <cstdint>

#include <tandem/graph/columns.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/spread/plan.hpp>
#include <tandem/graph/spread/spread.hpp>
#include <tandem/graph/spread/wishes.hpp>

namespace tandem {

namespace detail {

/// Walks over the nodes; without a graph to fill it counts.
template <GraphSize Whole>
class Spreader {
 public:
  constexpr Spreader(Graph<Whole> const& whole, int slices,
                     SpreadWishes const& wishes = SpreadWishes{})
      : whole_{whole}, plan_{plan_spread(whole, slices, wishes)}, slices_{slices} {}

  template <class G>
  constexpr GraphSize walk(G* to) {
    size_ = {.nodes = 0, .edges = 0, .parameters = Whole.parameters};
    for (int n = 0; n < Whole.nodes; ++n) {
      local_[n] = copied_[n] = -1;
    }
    for (int n = 0; n < Whole.nodes; ++n) {
      Node const& node = whole_.node[n];
      int source = -1;  // in place of the node's own
      Dealt const dealt = plan_.dealt[n];
      if (spread_rule(dealt).in == spread_rule(Dealt::copy).out) {
        source = copy_of(to, whole_.source[node.first_edge], n);
      }
      local_[n] = add_own(to, n, source);
      if (spread_rule(dealt).out == spread_rule(Dealt::reduce).in) {
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
  template <class G>
  constexpr int add(G* to, Node node, int edges) {
    node.first_edge = size_.edges;
    node.edges = edges;
    if (to != nullptr) {
      to->node[size_.nodes] = node;
    }
    return size_.nodes++;
  }
  template <class G>
  constexpr void add_edge(G* to, int source, int origin) {
    if (to != nullptr) {
      to->source[size_.edges] = source;
      to->edge_origin[size_.edges] = origin;
    }
    ++size_.edges;
  }

  // The Copy of what node @p source makes, for node @p reader.
  template <class G>
  constexpr int copy_of(G* to, int source, int reader) {
    if (copied_[source] < 0) {
      Node node = between(NodeKind::copy, Dealt::copy, whole_.node[source].out, reader);
      node.needs_gradient = whole_.node[source].needs_gradient;
      node.name = "Copy";
      copied_[source] = add(to, node, 1);
      add_edge(to, local_[source], whole_.edge_origin[whole_.node[reader].first_edge]);
    }
    return copied_[source];
  }

  // Behind node @p n, whose output is by now that of local_[n].
  template <class G>
  constexpr int add_behind(G* to, NodeKind kind, int n) {
    Node const& linear = whole_.node[n];
    bool const reduces = kind == NodeKind::reduce;
    Node node = between(kind, reduces ? Dealt::reduce : Dealt::whole, linear.out, n);
    node.needs_gradient = linear.needs_gradient;
    node.name = reduces ? "Reduce" : "Bias";
    if (!reduces) {
      node.view = false;
      node.frozen = linear.frozen;
      node.first_parameter = linear.first_parameter + 1;
      node.parameters = 1;
      if (to != nullptr) {
        to->parameter[node.first_parameter].node = size_.nodes;
      }
    }
    int const made = add(to, node, 1);
    add_edge(to, local_[n], whole_.edge_origin[linear.first_edge]);
    return made;
  }

  // A node of its own beside node @p n.
  [[nodiscard]] constexpr Node between(NodeKind kind, Dealt dealt, Shape shape, int n) const {
    Node const& beside = whole_.node[n];
    Node node{.kind = kind, .view = true};
    node.dealt = dealt;
    node.slices = dealt == Dealt::whole ? 1 : slices_;
    node.in = node.out = shape;
    node.origin = beside.origin;
    node.stage = beside.stage;
    node.top = beside.top;
    node.path = beside.path;
    node.kept = Kept::of(false, false);
    return node;
  }

  template <class G>
  constexpr int add_own(G* to, int n, int source) {
    Node node = whole_.node[n];
    node.dealt = plan_.dealt[n];
    if (node.dealt != Dealt::whole) {
      node.slices = slices_;
      node.parts = plan_.parts[n];
      node.macs /= slices_;
      node.kept.scalars /= slices_;
      node.kept.numbers /= slices_;
      node.kept.sums /= slices_;
      if (node.dealt == Dealt::rows || node.dealt == Dealt::inside) {
        node.in = slice_of(node.in);
      }
      if (node.dealt == Dealt::columns || node.dealt == Dealt::inside) {
        node.out = slice_of(node.out);
      }
      if (node.dealt == Dealt::vocabulary) {
        keep_words(node, whole_.node[n]);
      }
    }
    int const first = node.first_edge;
    int const edges = node.edges;
    if (to != nullptr) {
      for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
        to->parameter[p] = slice_of(whole_.parameter[p], n, p == node.first_parameter);
        to->parameter[p].node = size_.nodes;
      }
    }
    node.parameters = node.dealt == Dealt::rows ? 1 : node.parameters;
    int const made = add(to, node, edges);
    for (int e = first; e < first + edges; ++e) {
      add_edge(to, source >= 0 ? source : local_[whole_.source[e]], whole_.edge_origin[e]);
    }
    return made;
  }

  [[nodiscard]] constexpr Shape slice_of(Shape shape) const {
    shape.extent[shape.rank - 1] /= slices_;
    return shape;
  }

  // Of its logits, whose rows are padded; a Vocabulary that keeps none keeps four numbers of each
  // row, doubles.
  constexpr void keep_words(Node& node, Node const& whole) const {
    int const words = whole_.parameter[whole.first_parameter].parameter.shape[0];
    node.macs = whole.macs / words * padded_slice(words, slices_);
    node.kept.scalars = whole.kept.scalars / words * padded_slice(words, slices_);
    node.kept.numbers = whole.kept.scalars == 0 ? std::int64_t{node.in[0]} * 4 * 2 : 0;
  }

  // A Linear's: the weight (Out, In) and the bias (Out); a table's (V, C), and (V).
  [[nodiscard]] constexpr GraphParameter slice_of(GraphParameter own, int n, bool weight) const {
    if (plan_.dealt[n] == Dealt::embedding || plan_.dealt[n] == Dealt::vocabulary) {
      own.slices = {slices_, 0, ColumnParts::whole(own.parameter.shape[0])};
      own.parameter.shape.extent[0] = padded_slice(own.parameter.shape[0], slices_);
      return own;
    }
    bool const rows = plan_.dealt[n] == Dealt::rows;
    if (plan_.dealt[n] == Dealt::columns || (rows && weight)) {
      int const before = whole_.source[whole_.node[n].first_edge];
      ColumnParts const whole = ColumnParts::whole(own.parameter.shape[rows ? 1 : 0]);
      ColumnParts const parts = rows ? plan_.parts[before] : plan_.parts[n];
      own.slices = {slices_, rows ? 1 : 0, parts.count > 0 ? parts : whole};
      own.parameter.shape.extent[own.slices.axis] /= slices_;
    }
    return own;
  }

  Graph<Whole> const& whole_;
  SpreadPlan<Whole.nodes> plan_;
  int slices_;
  GraphSize size_{};
  int local_[static_cast<std::size_t>(Whole.nodes)] = {};   // of a node: where its output is
  int copied_[static_cast<std::size_t>(Whole.nodes)] = {};  // of a node: its Copy, or -1
};

}  // namespace detail

/// How large spread() of @p graph is.
template <GraphSize Whole>
constexpr GraphSize spread_size(Graph<Whole> const& graph, int slices,
                                SpreadWishes const& wishes = SpreadWishes{}) {
  return detail::Spreader<Whole>{graph, slices, wishes}.walk(static_cast<Graph<Whole>*>(nullptr));
}

/// The graph of each of @p slices ranks, with wishes as plan_spread() takes them.
/// @tparam Own  spread_size() of the same
template <GraphSize Own, GraphSize Whole>
constexpr Graph<Own> spread(Graph<Whole> const& graph, int slices,
                            SpreadWishes const& wishes = SpreadWishes{}) {
  Graph<Own> own;
  detail::Spreader<Whole>{graph, slices, wishes}.walk(&own);
  return own;
}

}  // namespace tandem
