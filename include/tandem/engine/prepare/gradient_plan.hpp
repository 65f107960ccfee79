// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// plan_memory: a MemoryPlan whole, values and gradients, and what waits for messages.

#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/scratch.hpp>
#include <tandem/engine/prepare/memory_plan.hpp>
#include <tandem/engine/prepare/send_waits.hpp>
#include <tandem/strategy/memory/gradient_arena.hpp>

namespace tandem {

/// Plans the memory of a device's graph. @p needs are those of each node's op.
TANDEM_ONCE TANDEM_COLD MemoryPlan plan_memory(GraphView graph, std::vector<OpNeeds> const& needs,
                                               PlanTask const& task);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Places the gradients of a MemoryPlan.
TANDEM_ONCE TANDEM_COLD void place_gradients(GraphView graph, std::vector<OpNeeds> const& needs,
                                             PlanTask const& task, MemoryPlan& plan) {
  Scratch<bool> in_place{graph.nodes};
  for (int n = 0; n < graph.nodes; ++n) {
    in_place[n] = needs[static_cast<std::size_t>(n)].in_place;
  }
  bool deferred = false;
  for (StageLife const& stage : task.stages) {
    deferred = deferred || stage.deferred > 0;
  }
  GradientArena const arena{graph,
                            {.batch = task.batch,
                             .element_bytes = task.element_bytes,
                             .in_place = in_place.data(),
                             .deferred = deferred,
                             .apart = task.apart,
                             .branches = task.branches}};
  auto const list = [](Scratch<std::int64_t> const& offsets, int size) {
    return std::vector<std::int64_t>(offsets.data(), offsets.data() + size);
  };
  plan.node_gradient = list(arena.node, graph.nodes);
  plan.edge_gradient = list(arena.edge, graph.edges);
  plan.outgoing = list(arena.outgoing, graph.nodes);
  plan.loss_gradient = arena.loss;
  plan.outgoing_bytes = arena.outgoing_bytes;
  plan.gradient_bytes = arena.bytes;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE MemoryPlan plan_memory(GraphView graph, std::vector<OpNeeds> const& needs,
                                   PlanTask const& task) {
  MemoryPlan plan;
  detail::ValuePlanner<>{graph, needs, task, plan}.place();
  detail::place_gradients(graph, needs, task, plan);
  detail::SendWaits<>{graph, task, plan}.find();
  return plan;
}

}  // namespace tandem

#endif
