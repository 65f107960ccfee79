// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Neighbourhood, Halo, tile_box(): what a layer needs of an image to make a tile of its output,
/// and where in an image tiles are.

#include <algorithm>

#include <tandem/core/geometry.hpp>
#include <tandem/core/tile_box.hpp>

namespace tandem {

/// What a layer of images says of itself that needs no whole ones.
struct Neighbourhood {
  bool local = false;   ///< y's pixel is made of x's pixels under a window alone
  Window window{};      ///< that one: of one pixel, where y's pixel is made of x's at its place
  bool lowest = false;  ///< what stands where x is padded never wins; else it is 0

  /// Each pixel by itself.
  static constexpr Neighbourhood alone() { return {.local = true}; }

  friend constexpr bool operator==(Neighbourhood const&, Neighbourhood const&) = default;
};

/// Rows and columns around a tile, of the tiles beside it or, at the border of the image, of its
/// padding.
struct Halo {
  int top = 0;
  int bottom = 0;
  int left = 0;
  int right = 0;
  bool lowest = false;  ///< as Neighbourhood

  [[nodiscard]] constexpr bool any() const { return top + bottom + left + right > 0; }
  [[nodiscard]] constexpr Extent2d around(Extent2d tile) const {
    return {tile.height + top + bottom, tile.width + left + right};
  }

  friend constexpr bool operator==(Halo const&, Halo const&) = default;
};

/// What a layer reads around a tile whose size its stride divides: padding before it, and behind it
/// what its last position reaches over.
constexpr Halo halo_of(Neighbourhood const& around) {
  Window const& w = around.window;
  Extent2d const reach = w.reach();
  return {.top = w.padding.height,
          .bottom = std::max(0, reach.height - w.padding.height - w.stride.height),
          .left = w.padding.width,
          .right = std::max(0, reach.width - w.padding.width - w.stride.width),
          .lowest = around.lowest};
}

/// Tile @p number of an image of @p tiles of size @p tile, by rows, with @p halo around it.
constexpr TileBox tile_box(int number, Extent2d tiles, Extent2d tile, Halo const& halo = {}) {
  return {number / tiles.width * tile.height - halo.top,
          number % tiles.width * tile.width - halo.left, halo.around(tile)};
}

}  // namespace tandem
