// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The parts of a network and what each device has of it, where they are known at run time only.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/graph/chunks.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/graph/spread/plan.hpp>
#include <tandem/graph/spread/rank_graph.hpp>
#include <tandem/graph/spread/wishes.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/device_graph.hpp>
#include <tandem/strategy/cut/relays.hpp>
#include <tandem/strategy/value.hpp>

namespace tandem {

/// A network and the part of each node, with relays where it needs some.
class RoutedParts {
 public:
  /// @param part  of each node of @p network
  TANDEM_ONCE RoutedParts(GraphView network, std::vector<std::int16_t> part,
                          StageMapView const& map);

  /// Refers to this, or to the network where that needs no relays.
  [[nodiscard]] GraphView view() const {
    return relayed_.nodes > 0 ? relayed_.view(network_) : network_;
  }
  [[nodiscard]] std::vector<std::int16_t> const& part() const { return part_; }

 private:
  GraphView network_;
  std::vector<std::int16_t> part_;
  detail::RuntimeGraph relayed_{};
};

/// What a rank does with the layers that its device has.
struct RankSpread {
  int chunks = 1;              ///< of time, one a pass
  Dealing dealing{};           ///< of layers over the ranks that share them
  bool sequence_rows = false;  ///< these have their rows of what stands between
  Extent2d tiles{};            ///< of images, one a rank
};

/// What the ranks of a strategy do with @p network.
TANDEM_ONCE RankSpread spread_of(GraphView network, StrategyValue const& value);

namespace detail {

/// The wishes of a strategy; decided, where bits do not depend on how many ranks share layers.
TANDEM_ONCE SpreadWishes wishes_in(StrategyValue const& value);

/// device_graph() of a network whose size is known at run time only.
TANDEM_ONCE RuntimeGraph cut_graph(RoutedParts const& routed, StageMapView const& map, int device,
                                   bool apart);
/// What one of a device's ranks computes of @p cut.
TANDEM_ONCE RuntimeGraph spread_graph(RuntimeGraph cut, RankSpread const& spread);

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE RoutedParts::RoutedParts(GraphView network, std::vector<std::int16_t> part,
                                     StageMapView const& map)
    : network_{network}, part_(std::move(part)) {
  if (!detail::needs_relays(network, part_.data(), map)) {
    return;
  }
  std::vector<int> reach(part_.size());
  std::vector<int> local(part_.size());
  detail::RelayBuilder counter{network, part_.data(), {reach.data(), local.data()}};
  detail::RelayBuilder builder = counter;
  counter.build(static_cast<detail::RuntimeGraph*>(nullptr), nullptr);
  relayed_.resize({counter.size.nodes, counter.size.edges, network.parameters});
  std::vector<std::int16_t> parts(static_cast<std::size_t>(counter.size.nodes));
  builder.build(&relayed_, parts.data());
  part_ = parts;
}

namespace detail {

TANDEM_ONCE SpreadWishes wishes_in(StrategyValue const& value) {
  SpreadWishes wishes = value.wishes;
  wishes.decided = value.batching.reproducible || value.layer_slices() > value.tensor;
  return wishes;
}

}  // namespace detail

TANDEM_ONCE RankSpread spread_of(GraphView network, StrategyValue const& value) {
  Batching const& batching = value.batching;
  int const slices = value.layer_slices();
  return {.chunks = batching.chunks,
          .dealing = {.slices = slices,
                      .own = value.has_tiles() ? 1 : slices / value.tensor,
                      .apart = batching.reproducible,
                      .wishes = slices == 1 ? SpreadWishes{}
                                            : decide_tables(detail::RuntimeGraph{network}, slices,
                                                            detail::wishes_in(value))},
          .sequence_rows = value.tensor > 1 && value.sequence_rows,
          .tiles = value.tiles};
}

namespace detail {

TANDEM_ONCE RuntimeGraph cut_graph(RoutedParts const& routed, StageMapView const& map, int device,
                                   bool apart) {
  GraphView const network = routed.view();
  std::vector<std::int16_t> local(routed.part().size());
  std::vector<int> reader(static_cast<std::size_t>(network.edges));
  std::vector<int> first_reading(local.size());
  std::vector<int> next_reading(reader.size());
  DeviceCutter counter{
      .network = network,
      .part = routed.part().data(),
      .map = map,
      .device = device,
      .apart = apart,
      .scratch = {local.data(), reader.data(), first_reading.data(), next_reading.data()}};
  DeviceCutter cutter = counter;
  counter.cut(static_cast<RuntimeGraph*>(nullptr));
  RuntimeGraph graph;
  graph.resize(counter.size);
  cutter.cut(&graph);
  return graph;
}

TANDEM_ONCE RuntimeGraph spread_graph(RuntimeGraph cut, RankSpread const& spread) {
  if (spread.chunks > 1) {
    take_chunks(cut, spread.chunks);
  }
  if (spread.dealing.slices > 1) {
    cut = runtime_rank_graph(cut, spread.dealing, spread.sequence_rows);
  }
  return spread.tiles != Extent2d{} ? runtime_tile_graph(cut, spread.tiles) : cut;
}

}  // namespace detail

}  // namespace tandem

#endif
