// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A chain with costs, a machine and a task, for tests of the planner's search.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/workers.hpp>

namespace tandem::test {

/// A chain whose parts take so many seconds forward, and twice as many backward, a sample.
inline CostGraph chain(std::vector<double> const& forward, int samples, std::int64_t bytes = 0) {
  CostGraph graph;
  for (std::size_t n = 0; n < forward.size(); ++n) {
    graph.node.push_back({.name = std::to_string(n),
                          .forward = forward[n] * samples,
                          .backward = 2 * forward[n] * samples,
                          .output_bytes = bytes * samples,
                          .parameter_bytes = 1000,
                          .part = static_cast<int>(n)});
    if (n > 0) {
      graph.edge.push_back({static_cast<int>(n) - 1, static_cast<int>(n)});
    }
  }
  return graph;
}

/// Two CPUs, or as many as are asked for.
inline Machine free_links() {
  Machine machine = two_cpus();
  machine.nodes = 0;
  machine.inside = machine.between = {.bandwidth = 1e18, .latency = 0};
  return machine;
}

/// Of 8 samples a worker, with any memory.
inline SearchTask task_of(Machine machine) {
  return {.machine = std::move(machine), .batch_per_worker = 8, .samples = 1e6, .memory = 1e18};
}

}  // namespace tandem::test
