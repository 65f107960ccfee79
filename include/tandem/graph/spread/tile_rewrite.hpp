// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// spread_tiles: the graph of one rank of several that each have a tile of every image, which is
/// the same for all of them: shapes of tiles, and nodes where the ranks exchange pixels.
///
///   x -> Cut -> Conv2d -> BatchNorm2d -> Halo -> Conv2d -> … -> Gather -> GlobalAvgPool -> y
///
/// A Cut takes the rank's tile, with a halo where its reader wants one, out of a whole image; a
/// Halo brings what is around a tile from the tiles beside it; a Gather makes whole images of
/// tiles.

#include <tandem/core/geometry.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/neighbourhood.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/graph/spread/tile_plan.hpp>

namespace tandem {

namespace detail {

/// Walks over the nodes; without a graph to fill it counts.
template <class Whole>
class Tiler : GraphWriter {
 public:
  constexpr Tiler(Whole const& whole, Extent2d tiles)
      : whole_{whole}, plan_{plan_tiles(whole, tiles)}, tiles_{tiles} {
    make_room(sources_, whole.edges);
    make_room(local_, whole.nodes);
    make_room(cut_, whole.nodes);
    make_room(made_, whole.nodes);
  }

  template <class G>
  constexpr GraphSize walk(G* to) {
    size_ = {.nodes = 0, .edges = 0, .parameters = whole_.parameters};
    for (int n = 0; n < whole_.nodes; ++n) {
      local_[n] = cut_[n] = -1;
    }
    for (int n = 0; n < whole_.nodes; ++n) {
      Node const& node = whole_.node[n];
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        sources_[e] = source_of(to, e, n);
      }
      add_own(to, n);
    }
    if (to != nullptr) {
      to->tops = whole_.tops;
      to->result = -1;
    }
    if (whole_.result >= 0) {
      int const n = whole_.result;
      int const made = plan_.tiled[n] ? exchange(to, Dealt::gather, {}, n, n, 0) : local_[n];
      if (to != nullptr) {
        to->result = made;
      }
    }
    return size_;
  }

 private:
  [[nodiscard]] constexpr Halo halo(int n) const {
    Node const& node = whole_.node[n];
    return node.kind == NodeKind::layer ? halo_of(node.sharing.neighbourhood) : Halo{};
  }

  // Where node @p reader finds what edge @p e carries, as it takes it.
  template <class G>
  constexpr int source_of(G* to, int e, int reader) {
    int const source = whole_.source[e];
    bool const tiled = plan_.tiled[reader];
    Halo const around = tiled ? halo(reader) : Halo{};
    if (plan_.tiled[source] == tiled && !around.any()) {
      return local_[source];
    }
    Dealt const dealt = !tiled                ? Dealt::gather
                        : plan_.tiled[source] ? Dealt::halo
                        : around.any()        ? Dealt::cut_widened
                                              : Dealt::cut;
    int const made = cut_[source];
    bool const again = made >= 0 && made_[source].sharing.dealt == dealt &&
                       made_[source].sharing.halo == around &&
                       made_[source].stage == whole_.node[reader].stage;
    if (!again) {
      cut_[source] = exchange(to, dealt, around, source, reader, e);
    }
    return cut_[source];
  }

  template <class G>
  constexpr int exchange(G* to, Dealt dealt, Halo const& around, int source, int reader, int e) {
    Node const& before = whole_.node[source];
    Node const& beside = whole_.node[reader];
    bool const gathers = dealt == Dealt::gather;
    bool const cuts = dealt == Dealt::cut || dealt == Dealt::cut_widened;
    Node node{.kind = NodeKind::exchange};
    node.sharing.dealt = dealt;
    node.sharing.slices = tiles_.height * tiles_.width;
    node.sharing.tiles = tiles_;
    node.sharing.halo = around;
    node.in = cuts ? before.out : tile(before.out);
    node.out = gathers ? before.out : widened(tile(before.out), around);
    node.needs_gradient = before.needs_gradient;
    node.origin = beside.origin;
    node.stage = beside.stage;
    node.top = beside.top;
    node.path = beside.path;
    node.kept = Kept::of(false, false);
    node.name = gathers ? "Gather" : cuts ? "Cut" : "Halo";
    made_[source] = node;
    int const made = add(to, node, 1);
    add_edge(to, local_[source], whole_.edge_origin[e]);
    return made;
  }

  template <class G>
  constexpr void add_own(G* to, int n) {
    Node node = whole_.node[n];
    if (plan_.tiled[n]) {
      Halo const around = halo(n);
      node.sharing.dealt = around.any() ? Dealt::windowed : Dealt::tiled;
      node.sharing.slices = tiles_.height * tiles_.width;
      node.sharing.tiles = tiles_;
      node.macs /= node.sharing.slices;
      node.kept.scalars /= node.sharing.slices;
      node.in = widened(tile(node.in), around);
      node.out = tile(node.out);
    }
    int const first = node.first_edge;
    for (int p = node.first_parameter; to != nullptr && p < node.first_parameter + node.parameters;
         ++p) {
      to->parameter[p] = whole_.parameter[p];
      to->parameter[p].node = size_.nodes;
    }
    local_[n] = add(to, node, node.edges);
    for (int e = 0; e < node.edges; ++e) {
      add_edge(to, sources_[first + e], whole_.edge_origin[first + e]);
    }
  }

  [[nodiscard]] constexpr Shape tile(Shape image) const {
    image.extent[1] /= tiles_.height;
    image.extent[2] /= tiles_.width;
    return image;
  }
  static constexpr Shape widened(Shape tile, Halo const& halo) {
    Extent2d const wide = halo.around(extent_of(tile));
    return image_shape(tile[0], wide.height, wide.width);
  }

  Whole const& whole_;
  TilePlan<Whole> plan_;
  Extent2d tiles_;
  PerEdge<int, Whole> sources_ = {};  // of an edge: where its reader finds what it carries
  PerNode<int, Whole> local_ = {};    // of a node: where its output is
  PerNode<int, Whole> cut_ = {};      // of a node: its last exchange, or -1
  PerNode<Node, Whole> made_ = {};    // that one
};

}  // namespace detail

/// How large spread_tiles() of @p graph is.
template <GraphSize Whole>
constexpr GraphSize tiled_size(Graph<Whole> const& graph, Extent2d tiles) {
  return detail::Tiler<Graph<Whole>>{graph, tiles}.walk(static_cast<Graph<Whole>*>(nullptr));
}

/// The graph of each rank that has one of @p tiles.
/// @tparam Own  tiled_size() of the same
template <GraphSize Own, GraphSize Whole>
constexpr Graph<Own> spread_tiles(Graph<Whole> const& graph, Extent2d tiles) {
  Graph<Own> own;
  detail::Tiler<Graph<Whole>>{graph, tiles}.walk(&own);
  return own;
}

}  // namespace tandem
