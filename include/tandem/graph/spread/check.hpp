// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// check_spreads: the proof that the nodes of a rank's graph add up to the network: along each edge
/// what is given is what is taken, each partial value and each partial gradient is summed exactly
/// once, and shapes and parameters are the slices that they should be.
///
/// It reads the graph as it is, by spread_rule(), and knows nothing of how it was made; so that a
/// collective that is missing, doubled, or on the wrong side of its reader does not compile.

#include <cstddef>
#include <cstdint>

#include <tandem/graph/columns.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/spread/rewrite.hpp>

namespace tandem {

/// What is wrong with a graph that is dealt out.
enum class SpreadFault : std::uint8_t {
  none,
  edge,       ///< a node takes another spread than its input gives
  twice,      ///< a partial value is read by several: it would be summed by each
  result,     ///< what the network gives is not whole
  shape,      ///< a node's rows, or their parts, are not those of its input or of its slice
  parameter,  ///< a parameter is whole where it is to be a slice, or the other way round; or its
  slice,      ///< a slice of a rank's is missing, doubled, or summed in another order
              ///< gradient is of a rank's rows, and nobody adds it up
  kind        ///< a node says that it is a collective, and is none, or the other way round
};

struct SpreadVerdict {
  SpreadFault fault = SpreadFault::none;
  int node = 0;

  [[nodiscard]] constexpr bool sound() const { return fault == SpreadFault::none; }
  friend constexpr bool operator==(SpreadVerdict const&, SpreadVerdict const&) = default;
};

namespace detail {

/// Whether the parameters of node @p n are the slices that it computes with.
template <GraphSize Size>
constexpr bool has_own_slices(Graph<Size> const& graph, int n) {
  Node const& node = graph.node[n];
  Sharing const& sharing = node.sharing;
  bool sound = sharing.dealt != Dealt::rows || node.parameters == 1;  // no bias before the sum
  for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
    Parameter const& own = graph.parameter[p].parameter;
    ParameterSlices const& slices = graph.parameter[p].slices;
    bool const of_rows = sharing.dealt == Dealt::between && !graph.parameter[p].frozen;
    sound = sound && graph.parameter[p].partial == of_rows;
    if (sharing.dealt == Dealt::columns || sharing.dealt == Dealt::inside) {
      sound = sound && slices == ParameterSlices{sharing.slices, 0, sharing.parts, sharing.slice} &&
              own.shape[0] == row_columns(node.out);
    } else if (sharing.dealt == Dealt::rows) {
      Node const& before = graph.node[graph.source[node.first_edge]];
      sound = sound &&
              slices == ParameterSlices{sharing.slices, 1, before.sharing.parts, sharing.slice} &&
              own.shape[1] == row_columns(node.in);
    } else if (sharing.dealt == Dealt::embedding || sharing.dealt == Dealt::vocabulary) {
      int const words = slices.parts.columns();
      sound =
          sound &&
          slices == ParameterSlices{sharing.slices, 0, ColumnParts::whole(words), sharing.slice} &&
          own.shape[0] == padded_slice(words, sharing.slices);
    } else {
      sound = sound && slices.count == 1;
    }
  }
  return sound;
}

/// The kind of what stands between nodes that are dealt out otherwise.
constexpr NodeKind collective_of(Dealt dealt) {
  switch (dealt) {
    case Dealt::copy:
      return NodeKind::copy;
    case Dealt::reduce:
      return NodeKind::reduce;
    case Dealt::enter:
      return NodeKind::enter;
    case Dealt::leave:
      return NodeKind::leave;
    case Dealt::deal:
      return NodeKind::deal;
    case Dealt::collect:
      return NodeKind::collect;
    default:
      return NodeKind::layer;  // none
  }
}

/// Whether node @p n, of rows or from rows to all of them, has as many as its inputs have.
template <GraphSize Size>
constexpr bool has_own_times(Graph<Size> const& graph, int n) {
  Node const& node = graph.node[n];
  Sharing const& sharing = node.sharing;
  bool sound = sharing.slices > 1 && node.in.timed && node.out.timed;
  for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
    sound = sound && graph.node[graph.source[e]].out == node.in;
  }
  Shape in = node.in;
  Shape out = node.out;
  bool const gathers = sharing.dealt == Dealt::enter || sharing.dealt == Dealt::collect;
  if (sharing.dealt != Dealt::between) {
    (gathers ? in : out).extent[0] *= sharing.slices;
    sound = sound && node.edges == 1;
  }
  return sound && in == out;
}

/// Whether node @p n has rows of its input's columns, and of its slice's.
template <GraphSize Size>
constexpr bool has_own_rows(Graph<Size> const& graph, int n) {
  Node const& node = graph.node[n];
  Sharing const& sharing = node.sharing;
  if (sharing.dealt == Dealt::whole) {
    return sharing.slices == 1;
  }
  if (sharing.dealt == Dealt::between || node.exchanges_rows()) {
    return has_own_times(graph, n);
  }
  Node const& before = graph.node[graph.source[node.first_edge]];
  bool const reads = node.in == before.out;
  bool const takes = sharing.dealt != Dealt::inside ||
                     (sharing.columns.each ? sharing.parts == before.sharing.parts
                                           : sharing.columns.in.same_parts(before.sharing.parts) &&
                                                 sharing.columns.in.divides(sharing.slices) &&
                                                 sharing.columns.out == sharing.parts);
  bool const whole = sharing.dealt != Dealt::columns && sharing.dealt != Dealt::inside;
  bool const makes = whole || (sharing.parts.divides(sharing.slices) &&
                               sharing.parts.columns() == sharing.slices * row_columns(node.out));
  return reads && takes && makes && node.edges == (sharing.dealt == Dealt::join ? 2 : 1);
}

/// Whether node @p n has to do with the slices that its inputs have, of @p own of a rank.
template <GraphSize Size>
constexpr bool has_own_span(Graph<Size> const& graph, int n, int own) {
  Node const& node = graph.node[n];
  Sharing const& sharing = node.sharing;
  if (sharing.dealt == Dealt::whole || sharing.dealt == Dealt::between || node.exchanges_rows()) {
    return sharing.slice == 0 && sharing.span == 1;
  }
  Sharing const& before = graph.node[graph.source[node.first_edge]].sharing;
  switch (sharing.dealt) {
    case Dealt::copy:
      return sharing.slice == 0 && sharing.span == own;
    case Dealt::half: {
      int const left = left_of(before.span);
      return sharing.slice == before.slice
                 ? sharing.span == left && left < before.span
                 : sharing.slice == before.slice + left && sharing.span == before.span - left;
    }
    case Dealt::join: {
      Sharing const& behind = graph.node[graph.source[node.first_edge + 1]].sharing;
      return before.span == left_of(sharing.span) && behind.span == sharing.span - before.span &&
             before.slice == sharing.slice && behind.slice == sharing.slice + before.span;
    }
    case Dealt::reduce:
      return before.slice == 0 && before.span == own && sharing.slice == 0 && sharing.span == own;
    default:
      return sharing.span == 1 && before.span == 1 && sharing.slice == before.slice;
  }
}

/// Of each Copy of several slices: whether each of its halves is there, once.
template <GraphSize Size>
class HalvesSeen {
 public:
  constexpr bool add(Graph<Size> const& graph, int n) {
    Node const& node = graph.node[n];
    if (node.sharing.dealt != Dealt::half) {
      return true;
    }
    int const whole = graph.source[node.first_edge];
    bool& seen = seen_[whole][node.sharing.slice == graph.node[whole].sharing.slice ? 0 : 1];
    bool const is_first = !seen;
    seen = true;
    return is_first;
  }
  [[nodiscard]] constexpr bool all(Graph<Size> const& graph, int n) const {
    Node const& node = graph.node[n];
    bool const is_copy = node.sharing.dealt == Dealt::copy || node.sharing.dealt == Dealt::half;
    return !is_copy || node.sharing.span == 1 || (seen_[n][0] && seen_[n][1]);
  }

 private:
  bool seen_[static_cast<std::size_t>(Size.nodes)][2] = {};
};

}  // namespace detail

/// The first fault of @p graph, or none. Cost: linear in its edges.
/// @param own  slices of a rank
template <GraphSize Size>
constexpr SpreadVerdict check_spreads(Graph<Size> const& graph, int own = 1) {
  detail::HalvesSeen<Size> halves;
  int readers[static_cast<std::size_t>(Size.nodes)] = {};
  for (int n = 0; n < Size.nodes; ++n) {
    Node const& node = graph.node[n];
    SpreadPair const wanted = spread_rule(node.sharing.dealt).in;
    NodeKind const collective = detail::collective_of(node.sharing.dealt);
    bool const joins = node.kind == NodeKind::add || node.sharing.dealt != Dealt::join;
    bool const halves_one = (node.kind == NodeKind::half) == (node.sharing.dealt == Dealt::half);
    if (!joins || !halves_one ||
        (node.is_collective() ? node.kind != collective : collective != NodeKind::layer)) {
      return {SpreadFault::kind, n};
    }
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      int const source = graph.source[e];
      SpreadPair const given = spread_rule(graph.node[source].sharing.dealt).out;
      if (given != wanted) {
        return {SpreadFault::edge, n};
      }
      if (given.value == Spread::partial && ++readers[source] > 1) {
        return {SpreadFault::twice, n};
      }
    }
    if (!detail::has_own_rows(graph, n)) {
      return {SpreadFault::shape, n};
    }
    if (!detail::has_own_slices(graph, n)) {
      return {SpreadFault::parameter, n};
    }
    if (!detail::has_own_span(graph, n, own) || !halves.add(graph, n)) {
      return {SpreadFault::slice, n};
    }
  }
  for (int n = 0; n < Size.nodes; ++n) {
    if (!halves.all(graph, n)) {
      return {SpreadFault::slice, n};
    }
  }
  bool const whole =
      graph.result < 0 || spread_rule(graph.node[graph.result].sharing.dealt).out == SpreadPair{};
  return whole ? SpreadVerdict{} : SpreadVerdict{SpreadFault::result, graph.result};
}

namespace detail {

/// The sentences; both numbers are printed.
template <SpreadFault Why, int NodeIndex>
struct SpreadsAreSound {
  static constexpr bool value = true;
  static_assert(
      Why != SpreadFault::edge,
      "TensorParallel: a node takes another spread than its input has: a Copy, a Reduce, or an "
      "exchange of rows is missing, doubled, or on the wrong side of it (SpreadsAreSound names "
      "the node)");
  static_assert(Why != SpreadFault::twice,
                "TensorParallel: a partial value is read by several nodes, so that it would be "
                "summed more than once (SpreadsAreSound names the second of them)");
  static_assert(Why != SpreadFault::result,
                "TensorParallel: the network's output is not whole on each rank: what is behind it "
                "would see a slice, or a part of a sum");
  static_assert(Why != SpreadFault::shape,
                "TensorParallel: a node's rows are not the slice that its input has, or that its "
                "parameters make (SpreadsAreSound names the node)");
  static_assert(
      Why != SpreadFault::parameter,
      "TensorParallel: a parameter is whole where a rank has a slice, or a slice where it "
      "is whole, or a bias would be added on each rank, or a gradient of a rank's rows by "
      "nobody (SpreadsAreSound names its node)");
  static_assert(Why != SpreadFault::slice,
                "Slices<L>: a slice is missing or doubled, or summed in another order than on as "
                "many devices (SpreadsAreSound names the node)");
  static_assert(Why != SpreadFault::kind,
                "TensorParallel: a node is said to be dealt out as its kind cannot be "
                "(SpreadsAreSound names the node)");
};

}  // namespace detail

}  // namespace tandem
