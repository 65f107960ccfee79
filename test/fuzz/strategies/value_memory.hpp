// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What device_memory<Net, S, Optimizer, Precision>() says of a strategy, where that is a value.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <tandem/engine/prepare/runtime_program.hpp>
#include <tandem/plan/search/worker_memory.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/strategy/memory/device_memory.hpp>
#include <tandem/strategy/value.hpp>

namespace tandem::fuzz {

/// Of the model, on its devices.
inline int copies_of(StrategyValue const& value) {
  bool const chain = value.cut == CutKind::splits || value.cut == CutKind::balanced;
  return chain ? make_map(value.schedule, value.devices(), value.stages_a_device).copies : 1;
}

/// Most tensors of device @p device of a replica, for steps of @p batch samples.
inline DeviceMemory memory_of_value(GraphView network, int tops, StrategyValue const& value,
                                    TensorSizes const& sizes, int batch, int device) {
  auto const element_bytes = static_cast<int>(sizes.master_bytes);
  RuntimeProgram const program{network, tops, value, {}, element_bytes};
  DeviceTables const& tables = program.device(device);
  ActionRows const& rows = program.cut().table;
  Batching const& batching = tables.batching;
  int buffers = 1;
  for (int leaves = batching.leaves_of_copy(tables.map.copies); leaves > 1; leaves /= 2) {
    ++buffers;
  }
  int const held = held_gradients(rows, device, tables.map, tables.stages, batching.passes());
  std::vector<StageMemory> stages;
  for (LocalStage const& own : tables.stages) {
    int const deferred = deferred_microbatches(rows, tables.map, own.id);
    stages.push_back(
        {.first = own.first,
         .last = own.last,
         .live = tables.places.rule.on()
                     ? tables.places.live()
                     : whole_chunks(live_microbatches(rows, tables.map, own.id), batching.chunks),
         .deferred = whole_chunks(std::max(held, deferred), batching.chunks)});
  }
  int const largest = largest_microbatch(batch, batching);
  return device_memory(tables.graph, {.batch = largest,
                                      .samples = std::int64_t{largest} * batching.microbatches,
                                      .master_bytes = sizes.master_bytes,
                                      .scalar_bytes = sizes.scalar_bytes,
                                      .elements = tables.parameter_elements,
                                      .read = tables.weight_elements,
                                      .trained = tables.layout.trained,
                                      .dense = tables.gradient_elements,
                                      .microbatches = batching.passes(),
                                      .chunks = batching.chunks,
                                      .replicas = tables.gradient_replicas(1),
                                      .states = sizes.states,
                                      .state_shares = tables.state_shares,
                                      .gradients = buffers,
                                      .places = tables.places.count(),
                                      .undoes = tables.post_validated,
                                      .reproducible = batching.reproducible,
                                      .averaging = tables.averaging,
                                      .stage = stages.data(),
                                      .stages = static_cast<int>(stages.size()),
                                      .segment = tables.segments});
}

}  // namespace tandem::fuzz
