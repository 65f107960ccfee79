// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// spread_volume: what the ranks that share layers add up, exchange or send in the passes of one
/// sample.

#include <cstdint>

#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/spread/spread.hpp>

namespace tandem {

/// Elements of the whole arrays of collectives, and how many these are. Of an all-gather and of a
/// reduce-scatter half as much is sent as of an all-reduce of the same array. Of exchanges
/// of tiles the elements that a rank gets, of the one that gets most.
struct SpreadVolume {
  int reduces = 0;       ///< all-reduces of values
  int copies = 0;        ///< all-reduces of gradients
  int row_gathers = 0;   ///< all-gathers of rows
  int row_scatters = 0;  ///< reduce-scatters of rows
  int exchanges = 0;     ///< of tiles
  int gathers = 0;       ///< all-gathers of numbers of doubles
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t gathered = 0;  ///< doubles that a rank has afterwards, in forward

  constexpr void add(SpreadVolume const& other) {
    reduces += other.reduces;
    copies += other.copies;
    exchanges += other.exchanges;
    row_gathers += other.row_gathers;
    row_scatters += other.row_scatters;
    gathers += other.gathers;
    forward += other.forward;
    backward += other.backward;
    gathered += other.gathered;
  }
};

namespace detail {

/// Of one axis of an image in @p tiles, each of @p own pixels and a halo of @p before and @p after.
struct TileAxis {
  std::int64_t most = 0;   ///< that a tile gets from its neighbours, if it gets most
  std::int64_t all = 0;    ///< of all tiles with their halos: padding is nobody's
  std::int64_t least = 0;  ///< of the smallest of these
};
constexpr TileAxis tile_axis(int tiles, std::int64_t own, int before, int after) {
  int const larger = before > after ? before : after;
  return {.most = tiles > 2   ? before + after
                  : tiles > 1 ? larger
                              : 0,
          .all = tiles * own + std::int64_t{tiles - 1} * (before + after),
          .least = own + (tiles > 1 ? before + after - larger : 0)};
}

constexpr SpreadVolume tile_volume(Node const& node) {
  if (node.sharing.dealt == Dealt::gather) {  // its gradient all have
    return {.exchanges = 1, .forward = node.out.elements() - node.in.elements()};
  }
  bool const cuts = node.sharing.dealt == Dealt::cut || node.sharing.dealt == Dealt::cut_widened;
  std::int64_t const height = node.in[1] / (cuts ? node.sharing.tiles.height : 1);
  std::int64_t const width = node.in[2] / (cuts ? node.sharing.tiles.width : 1);
  TileAxis const rows =
      tile_axis(node.sharing.tiles.height, height, node.sharing.halo.top, node.sharing.halo.bottom);
  TileAxis const columns =
      tile_axis(node.sharing.tiles.width, width, node.sharing.halo.left, node.sharing.halo.right);
  std::int64_t const halo = (height + rows.most) * (width + columns.most) - height * width;
  std::int64_t const pixels = cuts ? rows.all * columns.all - rows.least * columns.least : halo;
  std::int64_t const elements = node.in[0] * pixels;
  return {.exchanges = 1,
          .forward = cuts ? 0 : elements,
          .backward = node.needs_gradient ? elements : 0};
}

}  // namespace detail

/// Of one node, whose gradient nobody adds up or gathers where nobody wants one.
constexpr SpreadVolume spread_volume(Node const& node) {
  if (node.sharing.dealt == Dealt::vocabulary) {  // four of each row
    return {.gathers = 1, .gathered = std::int64_t{4} * node.in[0] * node.sharing.slices};
  }
  int const back = node.needs_gradient ? 1 : 0;
  switch (node.kind) {
    case NodeKind::reduce:
      return {.reduces = 1, .forward = node.out.elements()};
    case NodeKind::copy:
      return {.copies = back, .backward = back * node.out.elements()};
    case NodeKind::enter:
      return {.row_gathers = 1,
              .row_scatters = back,
              .forward = node.out.elements(),
              .backward = back * node.out.elements()};
    case NodeKind::leave:
      return {.row_gathers = back,
              .row_scatters = 1,
              .forward = node.in.elements(),
              .backward = back * node.in.elements()};
    case NodeKind::deal:
      return {.row_gathers = back, .backward = back * node.in.elements()};
    case NodeKind::collect:
      return {.row_gathers = 1, .forward = node.out.elements()};
    case NodeKind::exchange:
      return detail::tile_volume(node);
    default:
      return {};
  }
}

/// Of a rank's whole graph.
constexpr SpreadVolume spread_volume(GraphView graph) {
  SpreadVolume all;
  for (int n = 0; n < graph.nodes; ++n) {
    all.add(spread_volume(graph.node[n]));
  }
  return all;
}

/// Elements of the gradients of whole parameters of which each rank has a part, that of its rows:
/// what they add up once a step.
constexpr std::int64_t partial_gradients(GraphView graph) {
  std::int64_t sum = 0;
  for (int p = 0; p < graph.parameters; ++p) {
    sum += graph.parameter[p].partial ? graph.parameter[p].parameter.shape.elements() : 0;
  }
  return sum;
}

}  // namespace tandem
