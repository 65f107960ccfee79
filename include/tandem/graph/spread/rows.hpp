// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// deal_rows: a graph that spread() has made, with rows of time dealt out between its pairs.
///
///   x -> LayerNorm -> Enter -> Linear (columns) -> … -> Linear (rows) -> Leave -> Bias -> Add -> y
///
/// An Enter stands in place of a Copy, a Leave of a Reduce. Where what is whole meets rows stand a
/// Deal and a Collect; what goes from stage to stage is whole.

#include <cstddef>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/graph/spread/row_finder.hpp>

namespace tandem {

namespace detail {

/// Walks over the nodes; without a graph to fill it counts.
template <class Whole>
class RowDealer : GraphWriter {
 public:
  constexpr RowDealer(Whole const& whole, int slices) : whole_{whole}, slices_{slices} {
    for (PerNode<bool, Whole>* const list : {&between_, &in_rows_, &collects_}) {
      make_room(*list, whole.nodes);
    }
    for (PerNode<int, Whole>* const list : {&local_, &all_, &dealt_, &dealt_stage_}) {
      make_room(*list, whole.nodes);
    }
    RowFinder<Whole> finder{whole};
    for (int n = 0; n < whole_.nodes; ++n) {
      between_[n] = finder(n);
    }
    for (int n = 0; n < whole_.nodes; ++n) {
      Node const& node = whole_.node[n];
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        int const source = whole_.source[e];
        bool const reduces = whole_.node[source].kind == NodeKind::reduce;
        in_rows_[source] = in_rows_[source] || (reduces && takes_rows(n, source) && between_[n]);
      }
      in_rows_[n] = between_[n];
    }
    for (int n = 0; n < whole_.nodes; ++n) {
      Node const& node = whole_.node[n];
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        int const source = whole_.source[e];
        collects_[source] = collects_[source] || (in_rows_[source] && !takes_rows(n, source));
      }
    }
    if (whole_.result >= 0) {
      collects_[whole_.result] = collects_[whole_.result] || in_rows_[whole_.result];
    }
  }

  template <class G>
  constexpr GraphSize walk(G* to) {
    size_ = {.nodes = 0, .edges = 0, .parameters = whole_.parameters};
    for (int n = 0; n < whole_.nodes; ++n) {
      dealt_[n] = -1;
    }
    for (int n = 0; n < whole_.nodes; ++n) {
      add_own(to, n);
      all_[n] =
          collects_[n] ? add_beside(to, NodeKind::collect, n, local_[n], edge_of(n)) : local_[n];
    }
    if (to != nullptr) {
      to->tops = whole_.tops;
      to->result = whole_.result < 0 ? -1 : all_[whole_.result];
    }
    return size_;
  }

 private:
  // Whether node n reads rows where its input has them.
  [[nodiscard]] constexpr bool takes_rows(int n, int source) const {
    bool const near = whole_.node[n].stage == whole_.node[source].stage;
    return near && (between_[n] || whole_.node[n].kind == NodeKind::copy);
  }
  [[nodiscard]] constexpr int edge_of(int n) const {
    return whole_.node[n].edges > 0 ? whole_.edge_origin[whole_.node[n].first_edge] : 0;
  }

  // A Deal or a Collect of what node @p source of the new graph makes, where node @p n stands.
  template <class G>
  constexpr int add_beside(G* to, NodeKind kind, int n, int source, int origin) {
    Node const& beside = whole_.node[n];
    bool const deals = kind == NodeKind::deal;
    Node node = exchange(kind, deals ? beside.in : rows_of(beside.out),
                         deals ? rows_of(beside.in) : beside.out);
    node.origin = beside.origin;
    node.stage = beside.stage;
    node.top = beside.top;
    node.path = beside.path;
    node.needs_gradient = beside.needs_gradient;
    int const made = add(to, node, 1);
    add_edge(to, source, origin);
    return made;
  }
  [[nodiscard]] constexpr Node exchange(NodeKind kind, Shape in, Shape out) const {
    Node node{.kind = kind};
    become(node, kind, in, out);
    return node;
  }
  constexpr void become(Node& node, NodeKind kind, Shape in, Shape out) const {
    bool const enters = kind == NodeKind::enter;
    bool const leaves = kind == NodeKind::leave;
    bool const deals = kind == NodeKind::deal;
    node.kind = kind;
    node.sharing.dealt = enters   ? Dealt::enter
                         : leaves ? Dealt::leave
                         : deals  ? Dealt::deal
                                  : Dealt::collect;
    node.name = enters ? "Enter" : leaves ? "Leave" : deals ? "Deal" : "Collect";
    node.view = false;
    node.sharing.slices = slices_;
    node.in = in;
    node.out = out;
    node.kept = Kept::of(false, false);
  }

  // The rank's rows of what node n reads along edge e.
  template <class G>
  constexpr int rows_for(G* to, int n, int e) {
    int const source = whole_.source[e];
    if (in_rows_[source] && takes_rows(n, source)) {
      return local_[source];
    }
    if (dealt_[source] < 0 || dealt_stage_[source] != whole_.node[n].stage) {
      dealt_[source] = add_beside(to, NodeKind::deal, n, all_[source], whole_.edge_origin[e]);
      dealt_stage_[source] = whole_.node[n].stage;
      if (to != nullptr) {
        to->node[dealt_[source]].needs_gradient = whole_.node[source].needs_gradient;
      }
    }
    return dealt_[source];
  }

  template <class G>
  constexpr void add_own(G* to, int n) {
    Node node = whole_.node[n];
    int const first = node.first_edge;
    int const edges = node.edges;
    int rows[2] = {};  // what a node on rows reads: at most two
    if (between_[n]) {
      for (int e = 0; e < edges && e < 2; ++e) {
        rows[e] = rows_for(to, n, first + e);
      }
      node.sharing.dealt = Dealt::between;
      node.sharing.slices = slices_;
      node.in = rows_of(node.in);
      node.out = rows_of(node.out);
      node.macs /= slices_;
      node.kept.scalars /= slices_;
      node.kept.numbers /= slices_;
    } else if (in_rows_[n]) {
      become(node, NodeKind::leave, node.in, rows_of(node.out));
    }
    bool const enters = node.kind == NodeKind::copy && in_rows_[whole_.source[first]] &&
                        takes_rows(n, whole_.source[first]);
    if (enters) {
      become(node, NodeKind::enter, rows_of(node.in), node.out);
    }
    if (to != nullptr) {
      for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
        to->parameter[p] = whole_.parameter[p];
        to->parameter[p].node = size_.nodes;
        to->parameter[p].partial = between_[n] && !to->parameter[p].frozen;
      }
    }
    local_[n] = add(to, node, edges);
    for (int e = first; e < first + edges; ++e) {
      int const source = whole_.source[e];
      add_edge(to,
               between_[n] ? rows[e - first]
               : enters    ? local_[source]
                           : all_[source],
               whole_.edge_origin[e]);
    }
  }

  [[nodiscard]] constexpr Shape rows_of(Shape shape) const {
    shape.extent[0] /= slices_;
    return shape;
  }

  Whole const& whole_;
  int slices_;
  PerNode<bool, Whole> between_ = {};
  PerNode<bool, Whole> in_rows_ = {};   // its output is
  PerNode<bool, Whole> collects_ = {};  // some reader wants all of it
  PerNode<int, Whole> local_ = {};      // where its output is
  PerNode<int, Whole> all_ = {};        // and where all rows of that are
  PerNode<int, Whole> dealt_ = {};      // its Deal, or -1
  PerNode<int, Whole> dealt_stage_ = {};
};

}  // namespace detail

/// How large deal_rows() of @p graph is.
template <GraphSize Whole>
constexpr GraphSize dealt_size(Graph<Whole> const& graph, int slices) {
  return detail::RowDealer<Graph<Whole>>{graph, slices}.walk(static_cast<Graph<Whole>*>(nullptr));
}

/// The graph of each of @p slices ranks.
/// @tparam Own  dealt_size() of the same
template <GraphSize Own, GraphSize Whole>
constexpr Graph<Own> deal_rows(Graph<Whole> const& graph, int slices) {
  Graph<Own> own;
  detail::RowDealer<Graph<Whole>>{graph, slices}.walk(&own);
  return own;
}

}  // namespace tandem
