// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// own_geometry: the sizes of a convolution or a pool of a node, which may be a tile.

#include <tandem/core/geometry.hpp>
#include <tandem/graph/graph.hpp>

namespace tandem::detail {

/// @p whole, a ConvolutionGeometry or a PoolGeometry, of @p node: where that is a tile, its halo
/// has come in place of the padding.
template <class Geometry>
Geometry own_geometry(Geometry whole, Node const& node) {
  if (node.is_tile()) {
    whole.window.padding = {0, 0};
    whole.out = {node.out[1], node.out[2]};
  }
  return whole;
}

}  // namespace tandem::detail
