// SPDX-License-Identifier: Apache-2.0
// expect-error: SpatialParallel: a node takes another spread than its input has
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Image<1, 4, 4>, Sequential<Conv2d<2, Kernel<3>, Padding<1>>, Flatten>> {};

struct Own {
  static constexpr GraphSize size = tiled_size(graph<Net>, {2, 1});
  static constexpr auto graph = [] {
    auto own = spread_tiles<size>(tandem::graph<Net>, {2, 1});
#ifdef TANDEM_COMPILE_FAIL
    own.source[own.node[4].first_edge] = 2;  // a vector of a tile's pixels, not of the Gather's
#endif
    return own;
  }();
  static constexpr TileVerdict verdict = check_tiles(graph);
};

int main() { return detail::TilesAreSound<Own::verdict.fault, Own::verdict.node>::value ? 0 : 1; }
