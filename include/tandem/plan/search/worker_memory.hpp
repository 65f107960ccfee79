// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkerMemory: what the devices of a worker hold of a network of the library, by the functions
/// that fits<> uses.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/schedule/rules/weight_places.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/checkpoint_rule.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/cut/runtime_cut.hpp>
#include <tandem/strategy/memory/device_memory.hpp>
#include <tandem/strategy/memory/gradient_lives.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>
#include <tandem/strategy/value.hpp>

namespace tandem {

/// A network on the devices of a worker.
struct WorkerCut {
  StrategyValue value{};             ///< its replicas have each other's GradientRows
  std::vector<std::int16_t> part{};  ///< of each node of the network: its part of the model
  RuntimeMap map{};
  ActionRows table{};        ///< messages included
  std::int64_t samples = 1;  ///< of a microbatch
  RankSpread spread{};       ///< of each part's layers
};

/// Sizes of elements, and what the optimizer keeps.
struct TensorSizes {
  std::int64_t master_bytes = 4;  ///< as MemoryTask
  std::int64_t scalar_bytes = 4;
  int states = 1;
};

/// What each device of a worker needs at most, as device_memory<Net, S, Optimizer, Precision>()
/// says of the strategy as a type.
/// @pre each node of @p network has a part, each part a stage of each copy in worker.map
TANDEM_ONCE [[nodiscard]] std::vector<DeviceMemory> worker_memory(GraphView network,
                                                                  WorkerCut const& worker,
                                                                  TensorSizes const& sizes);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Adds the elements of a graph's parameters and gradients, as the compiler lays them out.
TANDEM_ONCE void count_parameters(GraphView graph, StrategyValue const& value, MemoryTask& task) {
  Batching const& batching = value.batching;
  RuntimeLayout const layout{graph,
                             task.master_bytes,
                             batching.first_bucket_bytes,
                             batching.bucket_bytes,
                             task.state_shares,
                             value.shards_gradients()};
  std::int64_t const part = layout.trained / task.state_shares + 2 * largest_bucket(layout);
  task.trained = layout.trained;
  task.dense = value.shards_gradients() ? part : layout.dense;
  bool const slots = value.shards_parameters();
  task.elements = slots ? part + layout.elements - layout.trained : layout.elements;
  task.read = slots ? task.elements - layout.trained / task.state_shares : layout.elements;
}

/// held_gradients() of a device's rows.
TANDEM_ONCE int gradients_held(GraphView graph, WorkerCut const& worker, int device, int passes) {
  std::vector<LocalStage> stages(static_cast<std::size_t>(count_stages(graph)));
  fill_stages(graph, StageMapView{worker.map}.parts(), stages.data());
  return held_gradients(worker.table, device, worker.map, stages, passes);
}

TANDEM_ONCE DeviceMemory worker_memory_of(GraphView graph, WorkerCut const& worker, int device,
                                          TensorSizes const& sizes) {
  StrategyValue const& value = worker.value;
  int const chunks = value.batching.chunks;
  WeightPlaces const places{.rule = value.asynchrony(), .stage = device};
  std::vector<int> segment(static_cast<std::size_t>(graph.nodes));
  fill_checkpoint_segments(graph, value.checkpoint, segment.data());
  int passes = 1;
  for (auto const& row : worker.table) {
    for (Action const& action : row) {
      passes = action.kind == ActionKind::forward ? std::max(passes, action.index + 1) : passes;
    }
  }
  int const held = places.rule.on() ? 0 : gradients_held(graph, worker, device, passes);
  std::vector<StageMemory> stages;
  for (int n = 0; n < graph.nodes; ++n) {
    int const id = graph.node[n].stage;
    if (n == 0 || id != graph.node[n - 1].stage) {
      stages.push_back({.first = n, .last = n, .live = places.live()});
      if (!places.rule.on()) {
        stages.back().live = whole_chunks(live_microbatches(worker.table, worker.map, id), chunks);
        stages.back().deferred = whole_chunks(
            std::max(held, deferred_microbatches(worker.table, worker.map, id)), chunks);
      }
    }
    stages.back().last = n + 1;
  }
  MemoryTask task{.batch = worker.samples,
                  .samples = worker.samples * (passes / chunks),
                  .master_bytes = sizes.master_bytes,
                  .scalar_bytes = sizes.scalar_bytes,
                  .microbatches = passes,
                  .chunks = chunks,
                  .replicas = value.batching.replicas,
                  .states = sizes.states,
                  .state_shares = value.state_shares(),
                  .places = places.count(),
                  .undoes = value.post_validated,
                  .stage = stages.data(),
                  .stages = static_cast<int>(stages.size()),
                  .segment = segment.data()};
  count_parameters(graph, value, task);
  return device_memory(graph, task);
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::vector<DeviceMemory> worker_memory(GraphView network, WorkerCut const& worker,
                                                    TensorSizes const& sizes) {
  std::vector<DeviceMemory> devices;
  RoutedParts const routed{network, worker.part, worker.map};
  for (int d = 0; d < worker.map.devices; ++d) {
    detail::RuntimeGraph const graph =
        detail::spread_graph(detail::cut_graph(routed, worker.map, d, false), worker.spread);
    devices.push_back(detail::worker_memory_of(graph.view(network), worker, d, sizes));
  }
  return devices;
}

}  // namespace tandem

#endif
