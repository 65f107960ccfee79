// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Machines, costs, graphs and tables for the tests of the simulator.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>

namespace tandem::test::simulator_cases {

/// Nodes of so many devices, each with an adapter of its own; one node if it is not changed.
inline Machine one_node(int devices, double bandwidth, double latency) {
  return {.name = "test",
          .devices_per_node = devices,
          .nodes = 0,
          .adapters = devices,
          .peak = {.fp64 = 1, .fp32 = 1, .tf32 = 1, .bf16 = 1},
          .memory_bandwidth = 1,
          .memory = 1,
          .inside = {.bandwidth = bandwidth, .latency = latency},
          .between = {.bandwidth = bandwidth, .latency = latency}};
}

/// The same of all stages and all messages.
inline SimulatedCosts costs_of(RuntimeMap const& map, StageLoad const& load, double bytes) {
  return {.stage = std::vector<StageLoad>(map.device.size(), load),
          .message_bytes = std::vector<double>(map.edge.size(), bytes)};
}

/// Equal nodes in a chain, each a part.
inline CostGraph chain_graph(int nodes) {
  CostGraph graph;
  for (int n = 0; n < nodes; ++n) {
    graph.node.push_back({.name = "node" + std::to_string(n),
                          .forward = 1e-3,
                          .backward = 2e-3,
                          .output_bytes = 100'000,
                          .parameter_bytes = 12'000'000,
                          .part = n});
    if (n > 0) {
      graph.edge.push_back({n - 1, n});
    }
  }
  return graph;
}

inline int below(std::mt19937& random, int count) {
  return static_cast<int>(random() % static_cast<std::uint32_t>(count));
}

struct One {
  std::string name;
  int devices = 2;
  int microbatches = 2;
  int chunks = 1;

  [[nodiscard]] ActionRows table(RuntimeMap const& map) const {
    return lower(make_schedule(name, devices, microbatches, chunks), map);
  }
};

/// 2 to 8 devices, as many to four times as many microbatches, where a schedule has them.
inline std::vector<One> all_schedules() {
  std::vector<One> all;
  for (int p = 2; p <= 8; ++p) {
    for (int m = p; m <= 4 * p; ++m) {
      for (char const* const name : {"sequential", "gpipe", "one_f_one_b", "zero_bubble_h1"}) {
        all.push_back({name, p, m, 1});
      }
      if (m % p == 0) {
        all.push_back({"interleaved", p, m, 2});
      }
      if (m % 2 == 0) {
        all.push_back({"cross_model", p, m, 1});
        if (p % 2 == 0) {
          all.push_back({"chimera", p, m, 1});
        }
      }
    }
  }
  return all;
}

}  // namespace tandem::test::simulator_cases
