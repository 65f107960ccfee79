// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RowFinder: which nodes of a graph that spread() has made are computed on a rank's rows; and
/// whether the ranks can have equal parts of these.

#include <cstddef>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/runtime_graph.hpp>

namespace tandem {

namespace detail {

/// Finds what is computed on a rank's rows: the layers of whole rows, one by one, that are joined
/// to what is behind a Reduce.
template <class G>
class RowFinder {
 public:
  constexpr explicit RowFinder(G const& graph) : graph_{graph} {
    make_room(group_, graph.nodes);
    make_room(reader_, graph.nodes);
    make_room(shared_, graph.nodes);
    make_room(wanted_, graph.nodes);
    for (int n = 0; n < graph_.nodes; ++n) {
      group_[n] = n;
      reader_[n] = -1;
    }
    find_shared();
    for (int n = 0; n < graph_.nodes; ++n) {
      if (treats_rows_alike(n)) {
        join_neighbours(n);
      }
    }
    for (int n = 0; n < graph_.nodes; ++n) {
      if (treats_rows_alike(n)) {
        each_near(n, [&](int source) {
          wanted_[group(n)] = wanted_[group(n)] || graph_.node[source].kind == NodeKind::reduce;
        });
      }
    }
  }

  /// Whether a rank computes its rows of node @p n.
  [[nodiscard]] constexpr bool operator()(int n) {
    return treats_rows_alike(n) && wanted_[group(n)];
  }

 private:
  [[nodiscard]] constexpr bool treats_rows_alike(int n) const {
    Node const& node = graph_.node[n];
    bool const joins = node.kind == NodeKind::add || node.kind == NodeKind::multiply ||
                       node.kind == NodeKind::bias;
    bool const layer = node.kind == NodeKind::layer &&
                       (node.sharing.columns.each || node.layer == LayerKind::row_norm);
    return node.sharing.dealt == Dealt::whole && (joins || layer) && node.out.timed &&
           node.out.rank == 2 && has_shape_of_inputs(n) && !node.view && !node.named && !shared_[n];
  }
  [[nodiscard]] constexpr bool has_shape_of_inputs(int n) const {
    Node const& node = graph_.node[n];
    bool alike = node.edges >= 1 && node.edges <= 2;
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      alike = alike && graph_.node[graph_.source[e]].out == node.out;
    }
    return alike;
  }
  // What node n reads of its own stage.
  template <class F>
  constexpr void each_near(int n, F const& f) const {
    Node const& node = graph_.node[n];
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      if (graph_.node[graph_.source[e]].stage == node.stage) {
        f(graph_.source[e]);
      }
    }
  }
  constexpr void find_shared() {
    for (int p = 0; p < graph_.parameters; ++p) {
      if (graph_.parameter[p].shared >= 0) {
        shared_[graph_.parameter[p].node] = true;
        for (int owner = 0; owner < graph_.parameters; ++owner) {
          bool const is = graph_.parameter[owner].origin == graph_.parameter[p].shared;
          shared_[graph_.parameter[owner].node] = shared_[graph_.parameter[owner].node] || is;
        }
      }
    }
  }
  [[nodiscard]] constexpr int group(int n) {
    for (; group_[n] != n; n = group_[n]) {
      group_[n] = group_[group_[n]];
    }
    return n;
  }
  // With what it reads, if that may have rows, else with what else reads that.
  constexpr void join_neighbours(int n) {
    each_near(n, [&](int source) {
      int const other = treats_rows_alike(source) ? source : reader_[source];
      reader_[source] = n;
      if (other >= 0) {
        group_[group(n)] = group(other);
      }
    });
  }

  G const& graph_;
  PerNode<int, G> group_ = {};
  PerNode<int, G> reader_ = {};  // of its stage, so far the last
  PerNode<bool, G> shared_ = {};
  PerNode<bool, G> wanted_ = {};  // of a group
};

}  // namespace detail

/// The longest time of a graph's sequences that @p slices ranks cannot deal out, else the longest
/// of all; 0 where there are none.
template <class G>
constexpr int time_to_deal(G const& graph, int slices) {
  int longest = 0;
  int uneven = 0;
  for (int n = 0; n < graph.nodes; ++n) {
    Shape const& out = graph.node[n].out;
    if (out.timed && out.rank == 2) {
      longest = longest < out[0] ? out[0] : longest;
      uneven = out[0] % slices != 0 && uneven < out[0] ? out[0] : uneven;
    }
  }
  return uneven > 0 ? uneven : longest;
}

}  // namespace tandem
