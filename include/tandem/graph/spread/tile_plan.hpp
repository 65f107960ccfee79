// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// plan_tiles: which layers of a graph are computed tile by tile, each rank one tile of each image.

#include <tandem/core/geometry.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/neighbourhood.hpp>
#include <tandem/graph/runtime_graph.hpp>

namespace tandem {

/// Of each node of a graph: whether a rank computes its tile of it.
template <class G>
struct TilePlan {
  int windows = 0;  ///< convolutions and pools of these
  detail::PerNode<bool, G> tiled = {};
};

namespace detail {

constexpr Extent2d extent_of(Shape const& image) { return {image[1], image[2]}; }

constexpr bool divides(Extent2d tiles, Extent2d image) {
  return image.height % tiles.height == 0 && image.width % tiles.width == 0;
}
constexpr Extent2d tile_of(Extent2d image, Extent2d tiles) {
  return {image.height / tiles.height, image.width / tiles.width};
}

/// Whether the positions of a window on a tile with its halo are those of a tile of the output.
constexpr bool fits_tiles(Node const& node, Extent2d tiles) {
  Extent2d const in = extent_of(node.in);
  Extent2d const out = extent_of(node.out);
  Window window = node.sharing.neighbourhood.window;
  bool const strides =
      in.height == out.height * window.stride.height && in.width == out.width * window.stride.width;
  if (!strides || !divides(tiles, in) || !divides(tiles, out)) {
    return false;
  }
  Halo const halo = halo_of(node.sharing.neighbourhood);
  Extent2d const tile = tile_of(in, tiles);
  bool const near = halo.top <= tile.height && halo.bottom <= tile.height &&
                    halo.left <= tile.width && halo.right <= tile.width;  // of neighbours alone
  window.padding = {0, 0};
  return near && window.positions(halo.around(tile)) == tile_of(out, tiles);
}

}  // namespace detail

/// Convolutions and pools wherever @p tiles divide what they read and give, and their strides fit;
/// what makes a pixel of pixels at its place, and joins, behind these alone.
template <class G>
constexpr TilePlan<G> plan_tiles(G const& graph, Extent2d tiles) {
  TilePlan<G> plan;
  detail::make_room(plan.tiled, graph.nodes);
  for (int n = 0; n < graph.nodes && graph.fault == Fault::none; ++n) {
    Node const& node = graph.node[n];
    bool const joins = node.kind == NodeKind::concat || node.kind == NodeKind::add ||
                       node.kind == NodeKind::multiply;
    bool const layer = node.kind == NodeKind::layer && node.sharing.neighbourhood.local;
    bool all = node.edges > 0;
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      all = all && plan.tiled[graph.source[e]];
    }
    bool const works = is_convolution(node.layer) || node.layer == LayerKind::pool;
    bool const images = node.in.rank == 3 && node.out.rank == 3;
    plan.tiled[n] = (layer || joins) && images && (works || all) && detail::fits_tiles(node, tiles);
    plan.windows += plan.tiled[n] && works ? 1 : 0;
  }
  return plan;
}

}  // namespace tandem
