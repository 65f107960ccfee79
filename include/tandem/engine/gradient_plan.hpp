// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// plan_memory: a MemoryPlan whole, values and gradients.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <tandem/engine/memory_plan.hpp>

namespace tandem {

namespace detail {

/// Places the gradients of a MemoryPlan whose values have been placed.
template <class = void>
class GradientPlanner {
 public:
  GradientPlanner(GraphView graph, std::vector<OpNeeds> const& needs, PlanTask const& task,
                  MemoryPlan& plan)
      : graph_{graph},
        needs_{needs},
        task_{task},
        sizes_{graph, task.batch, task.element_bytes},
        plan_{plan} {}

  // In backward, node n has time `nodes - n`; a buffer lives until its last reader's time.
  void place() {
    plan_.node_gradient.assign(static_cast<std::size_t>(graph_.nodes), MemoryPlan::none);
    plan_.edge_gradient.assign(static_cast<std::size_t>(graph_.edges), MemoryPlan::none);
    plan_.outgoing.assign(static_cast<std::size_t>(graph_.nodes), MemoryPlan::none);
    wide_gradient_.assign(static_cast<std::size_t>(graph_.nodes), MemoryPlan::none);
    dies_.resize(static_cast<std::size_t>(
        graph_.nodes));  // of a node's gradient, through nodes that pass it on
    own_.assign(static_cast<std::size_t>(graph_.nodes), true);
    place_outgoing();
    find_deaths();
    for (int n = graph_.nodes - 1; n >= 0; --n) {
      if (graph_.node[n].needs_gradient) {
        place_node_gradient(n);
        place_edge_gradients(n);
      }
    }
    plan_.gradient_bytes = gradients_.peak();
  }

 private:
  [[nodiscard]] OpNeeds const& needs(int node) const {
    return needs_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] int readers(int node) const {
    int count = 0;
    for (int e = 0; e < graph_.edges; ++e) {
      count += graph_.source[e] == node ? 1 : 0;
    }
    return count;
  }

  // What is sent while the next passes compute has memory that nothing else uses.
  void place_outgoing() {
    for (int n = 0; n < graph_.nodes; ++n) {
      Node const& node = graph_.node[n];
      if (node.kind == NodeKind::receive && node.needs_gradient) {
        plan_.outgoing[static_cast<std::size_t>(n)] = plan_.outgoing_bytes;
        plan_.outgoing_bytes += sizes_.bytes(n) * (task_.apart ? readers(n) : 1);
      }
    }
  }

  void find_deaths() {
    bool deferred = false;  // weight gradients are computed when the pass is over
    for (StageLife const& stage : task_.stages) {
      deferred = deferred || stage.deferred > 0;
    }
    for (int n = 0; n < graph_.nodes; ++n) {
      Node const& node = graph_.node[n];
      int& death = dies_[static_cast<std::size_t>(n)];
      death = deferred ? std::numeric_limits<int>::max() : time(node.merged ? node.home : n);
      for (int e = 0; passes_on(n) && e < node.edges; ++e) {
        int const source = graph_.source[node.first_edge + e];
        death = std::max(death, dies_[static_cast<std::size_t>(source)]);
      }
    }
  }

  // The gradient of its only reader's input, or a sum of several in memory of its own.
  void place_node_gradient(int n) {
    if (graph_.node[n].kind == NodeKind::send) {
      return;
    }
    auto const i = static_cast<std::size_t>(n);
    int users = 0;
    std::int64_t only = MemoryPlan::none;
    for (int m = n + 1; m < graph_.nodes; ++m) {
      for (int e = graph_.node[m].first_edge, end = e + graph_.node[m].edges; e < end; ++e) {
        if (graph_.source[e] == n && plan_.edge_gradient[static_cast<std::size_t>(e)] >= 0) {
          ++users;
          only = plan_.edge_gradient[static_cast<std::size_t>(e)];
          own_[i] = graph_.node[m].kind != NodeKind::add &&
                    (own_[static_cast<std::size_t>(m)] || !passes_on(m));
        }
      }
    }
    if (n == graph_.result) {
      only = plan_.loss_gradient = place(sizes_.bytes(n), n, n);
      users = 1;
    }
    if (plan_.outgoing[i] >= 0) {
      only = plan_.outgoing[i];
    } else if (users != 1) {
      own_[i] = true;
      only = place(sizes_.bytes(n), n, n);
    }
    plan_.node_gradient[i] = only;
  }

  void place_edge_gradients(int n) {
    Node const& node = graph_.node[n];
    std::int64_t channel = 0;
    for (int e = node.first_edge; e < node.first_edge + node.edges && !node.merged; ++e) {
      int const source = graph_.source[e];
      std::int64_t const offset = node.placed ? channel * task_.element_bytes : 0;
      channel += graph_.node[source].out[0];
      if (graph_.node[source].needs_gradient) {
        plan_.edge_gradient[static_cast<std::size_t>(e)] =
            passes_on(n) ? plan_.node_gradient[static_cast<std::size_t>(n)] + offset
                         : place_edge_gradient(n, source);
      }
    }
  }

  // What node @p n writes as the gradient of @p source, perhaps a slice of a wide one.
  std::int64_t place_edge_gradient(int n, int source) {
    Node const& node = graph_.node[source];
    if (plan_.outgoing[static_cast<std::size_t>(source)] >= 0 && readers(source) == 1) {
      return plan_.outgoing[static_cast<std::size_t>(source)];
    }
    int const leader = node.merged ? node.home : source;
    if (graph_.node[leader].width == 0) {
      return place(sizes_.bytes(source), n, source);
    }
    std::int64_t& wide = wide_gradient_[static_cast<std::size_t>(leader)];
    if (wide == MemoryPlan::none) {
      wide = place(sizes_.stored_bytes(leader), n, leader);
    }
    return wide + node.first_channel * task_.element_bytes;
  }

  // Memory that is written when @p writer has its turn and read until that of @p last.
  std::int64_t place(std::int64_t bytes, int writer, int last) {
    return plan_.outgoing_bytes +
           gradients_.place(bytes, time(writer), dies_[static_cast<std::size_t>(last)]);
  }

  [[nodiscard]] int time(int node) const { return graph_.nodes - node; }
  // The gradient of its output and those of its inputs are in the same memory.
  [[nodiscard]] bool passes_on(int n) const {
    Node const& node = graph_.node[n];
    return node.kind == NodeKind::add || node.view || node.placed ||
           (needs(n).in_place && own_[static_cast<std::size_t>(n)]);
  }

  GraphView graph_;
  std::vector<OpNeeds> const& needs_;
  PlanTask const& task_;
  BufferSizes sizes_;
  MemoryPlan& plan_;
  FirstFit gradients_;
  std::vector<std::int64_t> wide_gradient_;  // of the first of merged nodes
  std::vector<int> dies_;
  std::vector<bool> own_;  // of a node: nobody else has its gradient's memory
};

}  // namespace detail

/// Plans the memory of a device's graph. @p needs are those of each node's op.
template <class = void>
MemoryPlan plan_memory(GraphView graph, std::vector<OpNeeds> const& needs, PlanTask const& task) {
  MemoryPlan plan;
  detail::ValuePlanner<>{graph, needs, task, plan}.place();
  detail::GradientPlanner<>{graph, needs, task, plan}.place();
  return plan;
}

}  // namespace tandem
