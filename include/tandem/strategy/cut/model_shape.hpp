// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How a strategy cuts a network: the stages, where they are, and what each device does in a step.
///
/// A strategy has `devices` of a model replica, `copies` of the model in it, `checkpoint`, and
/// Cut<Net> with three constexpr values: `partition` (node → part), `map` (part → device) and
/// `table` (rows of actions, messages included).

#include <tandem/core/mesh.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/table/stage_map.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/checkpoint_rule.hpp>
#include <tandem/strategy/cut/partition.hpp>

namespace tandem {

namespace detail {

template <class Sink>
constexpr void sequential(StageMapView const& map, int microbatches, Sink& sink) {
  auto const add = [&](ActionKind kind, int stage, int m) {
    sink(map.device[stage], {.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = m});
  };
  for (int m = 0; m < microbatches; ++m) {
    for (int s = 0; s < map.stages; ++s) {
      add(ActionKind::forward, s, m);
    }
    for (int s = map.stages - 1; s >= 0; --s) {
      add(ActionKind::backward, s, m);
    }
  }
}

}  // namespace detail

/// Rows of a model without a pipeline: each microbatch goes forward through all stages and back
/// before the next begins.
/// @tparam Length  the most passes of a device, 2 * microbatches * its stages
template <int Devices, int Length>
constexpr auto sequential_table(StageMapView const& map, int microbatches) {
  ActionTable<Devices, Length> table;
  auto sink = [&table](int device, Action const& action) { table.add(device, action); };
  detail::sequential(map, microbatches, sink);
  return table;
}

/// In place of Split<…>s and the like.
struct UncutModel {
  static constexpr int parts = 1;
  static constexpr bool is_whole = true;
};

/// A model that one device has whole.
template <int Microbatches>
struct OneDeviceModel {
  using HowType = UncutModel;
  static constexpr Mesh mesh{};
  static constexpr int devices = 1;
  static constexpr int copies = 1;
  static constexpr CheckpointRule checkpoint{};

  template <class Net>
  struct Cut {
    static constexpr Partition<graph<Net>.nodes> partition{};
    static constexpr auto map = chain_map<1>();
    static constexpr auto table = sequential_table<1, 2 * Microbatches>(map, Microbatches);
  };
};

}  // namespace tandem
