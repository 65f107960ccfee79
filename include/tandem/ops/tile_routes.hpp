// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TileRoutes: which boxes of each image go from rank to rank where ranks that have tiles exchange
/// pixels; the same on every backend.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/tile_box.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/neighbourhood.hpp>
#include <tandem/ops/tile_message.hpp>

namespace tandem {

/// To and from one other rank, of each image.
struct TileRoute {
  int peer = 0;
  TileBox out{};
  TileBox in{};
  bool packs = false;        ///< what is sent is put together for it; else it is there already
  std::int64_t out_at = -1;  ///< pixels of an image before that, in scratch; -1: all that the rank
                             ///< has is sent, from where it is
  std::int64_t in_at = 0;    ///< likewise, before what is received
};

/// One rank's part of a Cut, Halo or Gather, in one of its passes. A rank holds a box of each
/// image, its tile or all of it, and comes to hold another one: forward brings that, from the
/// others what they hold of it. Backward takes the gradient of what it wanted back to who holds it.
/// A whole image that all hold already they do not send each other.
class TileRoutes {
 public:
  /// @param node  an exchange
  /// @param self  the number of the rank's tile
  TANDEM_ONCE TANDEM_COLD TileRoutes(Node const& node, int self, bool backward);

  /// What the rank has before and what it comes to have.
  [[nodiscard]] TileBox here() const { return here_; }
  [[nodiscard]] TileBox there() const { return there_; }
  /// Of each image, of what is put together and of what is received.
  [[nodiscard]] std::int64_t pixels() const { return pixels_; }
  /// In the order of the ranks.
  [[nodiscard]] std::span<TileRoute const> routes() const {
    return {routes_.data(), routes_.size()};
  }

  /// @p to becomes the messages of these routes, one each.
  /// @param data     images of what the rank has
  /// @param numbers  of all images, of one pixel: elements of a pixel of scratch
  template <class T>
  void write_messages(T const* data, T* scratch, std::int64_t numbers,
                      std::vector<TileMessage<T>>& to) const {
    to.clear();
    for (TileRoute const& route : routes_) {
      to.push_back({route.peer, route.out_at < 0 ? data : scratch + route.out_at * numbers,
                    route.out.pixels() * numbers, scratch + route.in_at * numbers,
                    route.in.pixels() * numbers});
    }
  }

 private:
  static bool gathers(Node const& node) { return node.sharing.dealt == Dealt::gather; }
  static bool cuts(Node const& node) {
    return node.sharing.dealt == Dealt::cut || node.sharing.dealt == Dealt::cut_widened;
  }
  // What a rank holds of the output, or of the input.
  TANDEM_ONCE static TileBox box(Node const& node, int rank, bool of_output);

  TileBox here_;
  TileBox there_;
  std::int64_t pixels_ = 0;
  std::vector<TileRoute> routes_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE TileRoutes::TileRoutes(Node const& node, int self, bool backward)
    : here_{box(node, self, backward)}, there_{box(node, self, !backward)} {
  int const ranks = node.sharing.tiles.height * node.sharing.tiles.width;
  bool const all_have = backward ? gathers(node) : cuts(node);
  TileRoute packed{};  // the last that was: others often want the same
  for (int other = 0; other < ranks && !all_have; ++other) {
    TileRoute route{.peer = other,
                    .out = common_box(here_, box(node, other, !backward)),
                    .in = common_box(box(node, other, backward), there_)};
    if (other == self || (route.out.empty() && route.in.empty())) {
      continue;
    }
    if (!route.out.empty() && route.out != here_) {
      route.packs = route.out != packed.out;
      route.out_at = route.packs ? pixels_ : packed.out_at;
      pixels_ += route.packs ? route.out.pixels() : 0;
      packed = route;
    }
    route.in_at = pixels_;
    pixels_ += route.in.pixels();
    routes_.push_back(route);
  }
}

TANDEM_ONCE TileBox TileRoutes::box(Node const& node, int rank, bool of_output) {
  Shape const& image = of_output ? node.out : node.in;
  Extent2d const extent{image[1], image[2]};
  bool const whole = of_output ? gathers(node) : cuts(node);
  Halo const around = of_output ? node.sharing.halo : Halo{};
  Extent2d const tile{extent.height - around.top - around.bottom,
                      extent.width - around.left - around.right};
  return whole ? TileBox{0, 0, extent} : tile_box(rank, node.sharing.tiles, tile, around);
}

}  // namespace tandem

#endif
