// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// runtime_rank_graph, runtime_tile_graph: the graph of each rank of those that share a network's
/// layers or images, where its size is known at run time only, for planners.

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/graph/spread/rewrite.hpp>
#include <tandem/graph/spread/rows.hpp>
#include <tandem/graph/spread/tile_rewrite.hpp>

namespace tandem::detail {

template <class Walk>
RuntimeGraph walked(Walk const& walk) {
  RuntimeGraph made;
  Walk counter = walk;
  made.resize(counter.walk(static_cast<RuntimeGraph*>(nullptr)));
  Walk maker = walk;
  maker.walk(&made);
  return made;
}

/// spread() of @p whole and, with @p rows, deal_rows() of that.
TANDEM_ONCE RuntimeGraph runtime_rank_graph(RuntimeGraph const& whole, Dealing const& dealing,
                                            bool rows);

/// spread_tiles() of @p whole.
TANDEM_ONCE RuntimeGraph runtime_tile_graph(RuntimeGraph const& whole, Extent2d tiles);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE RuntimeGraph runtime_rank_graph(RuntimeGraph const& whole, Dealing const& dealing,
                                            bool rows) {
  RuntimeGraph const spread = walked(Spreader<RuntimeGraph>{whole, dealing});
  return rows ? walked(RowDealer<RuntimeGraph>{spread, dealing.slices}) : spread;
}

TANDEM_ONCE RuntimeGraph runtime_tile_graph(RuntimeGraph const& whole, Extent2d tiles) {
  return walked(Tiler<RuntimeGraph>{whole, tiles});
}

}  // namespace tandem::detail

#endif
