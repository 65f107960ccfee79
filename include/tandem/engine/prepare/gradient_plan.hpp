// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// plan_memory: a MemoryPlan whole, with gradients and waits: which actions of a device write where
/// a message is sent from, by where its plan has put values and gradients.
///
/// A stage that only passes on what it received (a ReLU in place, a Flatten, a Dropout in
/// evaluation) sends it from where it arrived, so already the next arrival must wait; a view of
/// another stage's value is sent from that stage's memory. Waiting there and not copying costs a
/// stage that computes in memory of its own nothing, and no bytes anywhere.
///
/// No wait is for ever: a row goes on behind a SEND when there is a place for its message, which is
/// what verify() asks for, and each of these waits, further on in the row, asks for no more.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/scratch.hpp>
#include <tandem/engine/prepare/memory_plan.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/strategy/memory/buffer_sizes.hpp>
#include <tandem/strategy/memory/gradient_arena.hpp>

namespace tandem {

/// Plans the memory of a device's graph. @p needs are those of each node's op.
TANDEM_ONCE TANDEM_COLD MemoryPlan plan_memory(GraphView graph, std::vector<OpNeeds> const& needs,
                                               PlanTask const& task);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Fills MemoryPlan::waits. @pre all else of @p plan is there
class SendWaits {
 public:
  SendWaits(GraphView graph, PlanTask const& task, MemoryPlan& plan)
      : graph_{graph}, task_{task}, plan_{plan} {}

  void find() {
    for (int n = 0; n < graph_.nodes; ++n) {
      if (graph_.node[n].kind == NodeKind::send) {
        find_writers_of_value(n);
      } else if (plan_.outgoing[static_cast<std::size_t>(n)] >= 0) {
        find_writers_of_gradient(n);
      }
    }
  }

 private:
  // Memory is written when it is received, computed, and computed again.
  TANDEM_COLD void find_writers_of_value(int send) {
    int const sent = root(graph_.source[graph_.node[send].first_edge]);
    bool const answered = graph_.node[send].needs_gradient;
    for (int n = 0; n < graph_.nodes; ++n) {
      Node const& node = graph_.node[n];
      if (root(n) != sent || (!node.computes() && node.kind != NodeKind::receive)) {
        continue;
      }
      bool const received = node.kind == NodeKind::receive;
      add(received ? ActionKind::receive_forward : ActionKind::forward, n, send, answered);
      if (!received && task_.segment != nullptr && task_.segment[n] >= 0) {
        add(ActionKind::backward, n, send, answered);
      }
    }
  }

  // It is gathered by the pass of the stage that received, or written by its only reader.
  TANDEM_COLD void find_writers_of_gradient(int received) {
    add(ActionKind::backward, received, received, false);
    std::int64_t const begin = plan_.outgoing[static_cast<std::size_t>(received)];
    std::int64_t const end = begin + plan_.bytes[static_cast<std::size_t>(received)];
    for (int n = received; n < graph_.nodes; ++n) {
      for (int e = graph_.node[n].first_edge, last = e + graph_.node[n].edges; e < last; ++e) {
        std::int64_t const gradient = plan_.edge_gradient[static_cast<std::size_t>(e)];
        if (graph_.source[e] == received && gradient >= begin && gradient < end) {
          add(ActionKind::backward, n, received, false);
        }
      }
    }
  }

  TANDEM_COLD void add(ActionKind before, int writer, int message, bool answered) {
    SendWait const wait{.before = before,
                        .stage = graph_.node[writer].stage,
                        .node = message,
                        .answered = answered};
    if (std::find(plan_.waits.begin(), plan_.waits.end(), wait) == plan_.waits.end()) {
      plan_.waits.push_back(wait);
    }
  }
  [[nodiscard]] int root(int node) const { return plan_.root[static_cast<std::size_t>(node)]; }

  GraphView graph_;
  PlanTask const& task_;
  MemoryPlan& plan_;
};

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
  detail::ValuePlanner{graph, needs, task, plan}.place();
  detail::place_gradients(graph, needs, task, plan);
  detail::SendWaits{graph, task, plan}.find();
  return plan;
}

}  // namespace tandem

#endif
