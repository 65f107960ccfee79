// SPDX-License-Identifier: Apache-2.0
// expect-error: SpatialParallel: a halo has fewer pixels than the window behind it reads
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Image<1, 4, 4>, Sequential<Conv2d<2, Kernel<3>, Padding<1>>, Flatten>> {};

struct Own {
  static constexpr GraphSize size = tiled_size(graph<Net>, {2, 1});
  static constexpr auto graph = [] {
    auto own = spread_tiles<size>(tandem::graph<Net>, {2, 1});
#ifdef TANDEM_COMPILE_FAIL
    --own.node[1].sharing.halo.bottom;
    --own.node[1].out.extent[1];
    --own.node[2].in.extent[1];
#endif
    return own;
  }();
  static constexpr TileVerdict verdict = check_tiles(graph);
};

int main() { return detail::TilesAreSound<Own::verdict.fault, Own::verdict.node>::value ? 0 : 1; }
