// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// check_tiles: the proof that a rank's graph of tiles is the network: along each edge what is
/// given is what is taken, tiles and halos have the sizes that their readers want, and what leaves
/// the network is whole.
///
/// It reads the graph as it is, by spread_rule() and the windows of the layers, and knows nothing
/// of how it was made; so that an exchange that is missing, or a halo that is too narrow, does not
/// compile.

#include <cstdint>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/neighbourhood.hpp>
#include <tandem/graph/spread/spread.hpp>
#include <tandem/graph/spread/tile_plan.hpp>

namespace tandem {

/// What is wrong with a graph of tiles.
enum class TileFault : std::uint8_t {
  none,
  edge,       ///< a node takes another spread than its input gives
  halo,       ///< a window reaches over the halo of its input
  shape,      ///< a node's image is not that of its input, or not what its kind makes of it
  parameter,  ///< a parameter is a slice
  result,     ///< what the network gives is not whole
  kind        ///< a node says that it exchanges pixels, and does not, or the other way round
};

struct TileVerdict {
  TileFault fault = TileFault::none;
  int node = 0;

  [[nodiscard]] constexpr bool sound() const { return fault == TileFault::none; }
  friend constexpr bool operator==(TileVerdict const&, TileVerdict const&) = default;
};

namespace detail {

/// Of a node that exchanges pixels: its output.
constexpr Extent2d exchanged_extent(Node const& node) {
  Extent2d const in = extent_of(node.in);
  bool const cuts = node.sharing.dealt == Dealt::cut || node.sharing.dealt == Dealt::cut_widened;
  return node.sharing.dealt == Dealt::gather
             ? Extent2d{in.height * node.sharing.tiles.height, in.width * node.sharing.tiles.width}
         : cuts ? node.sharing.halo.around(tile_of(in, node.sharing.tiles))
                : node.sharing.halo.around(in);
}

/// Of a node that computes a tile, or of one that is whole.
constexpr bool has_own_image(Node const& node) {
  if (node.sharing.dealt == Dealt::whole || node.kind != NodeKind::layer) {
    return true;
  }
  Window window = node.sharing.neighbourhood.window;
  window.padding = {0, 0};
  return window.positions(extent_of(node.in)) == extent_of(node.out);
}

}  // namespace detail

/// The first fault of @p graph, or none. Cost: linear in its edges.
template <GraphSize Size>
constexpr TileVerdict check_tiles(Graph<Size> const& graph) {
  for (int n = 0; n < Size.nodes; ++n) {
    Node const& node = graph.node[n];
    if ((node.kind == NodeKind::exchange) != exchanges_pixels(node.sharing.dealt)) {
      return {TileFault::kind, n};
    }
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      Node const& before = graph.node[graph.source[e]];
      if (spread_rule(before.sharing.dealt).out != spread_rule(node.sharing.dealt).in) {
        return {TileFault::edge, n};
      }
      if (node.sharing.dealt == Dealt::windowed &&
          before.sharing.halo != halo_of(node.sharing.neighbourhood)) {
        return {TileFault::halo, n};
      }
      if (node.sharing.dealt == Dealt::tiled && node.kind == NodeKind::layer &&
          halo_of(node.sharing.neighbourhood).any()) {
        return {TileFault::halo, n};
      }
      bool const first = e == node.first_edge;
      if (node.sharing.dealt != Dealt::whole && first && node.in != before.out) {
        return {TileFault::shape, n};
      }
    }
    bool const image = node.kind == NodeKind::exchange
                           ? detail::exchanged_extent(node) == detail::extent_of(node.out)
                           : detail::has_own_image(node);
    if (!image) {
      return {TileFault::shape, n};
    }
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      if (graph.parameter[p].slices.count != 1) {
        return {TileFault::parameter, n};
      }
    }
  }
  bool const whole =
      graph.result < 0 || spread_rule(graph.node[graph.result].sharing.dealt).out == SpreadPair{};
  return whole ? TileVerdict{} : TileVerdict{TileFault::result, graph.result};
}

namespace detail {

/// The sentences; both numbers are printed.
template <TileFault Why, int NodeIndex>
struct TilesAreSound {
  static constexpr bool value = true;
  static_assert(Why != TileFault::edge,
                "SpatialParallel: a node takes another spread than its input has: a Cut, a Halo or "
                "a Gather is missing, or one too many (TilesAreSound names the node)");
  static_assert(Why != TileFault::halo,
                "SpatialParallel: a halo has fewer pixels than the window behind it reads, or "
                "stands where another's is wanted (TilesAreSound names the node with the window)");
  static_assert(Why != TileFault::shape,
                "SpatialParallel: a node's image is not its input's, or not the tile that it makes "
                "of it (TilesAreSound names the node)");
  static_assert(Why != TileFault::parameter,
                "SpatialParallel: a parameter is a slice, where each rank has all of it "
                "(TilesAreSound names its node)");
  static_assert(Why != TileFault::result,
                "SpatialParallel: the network's output is not whole on each rank: what is behind "
                "it would see a tile");
  static_assert(Why != TileFault::kind,
                "SpatialParallel: a node is said to be dealt out as its kind cannot be "
                "(TilesAreSound names the node)");
};

}  // namespace detail

}  // namespace tandem
