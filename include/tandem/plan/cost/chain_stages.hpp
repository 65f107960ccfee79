// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// chain_stages: a network cut between its top-level parts, and what each stage takes, keeps and
/// sends.

#include <algorithm>
#include <cstddef>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/cost_graph.hpp>

namespace tandem::detail {

/// Consecutive parts of a network.
struct ChainStage {
  double forward = 0;
  double backward = 0;
  double parameter_bytes = 0;
  double dense_bytes = 0;  ///< of gradients that are summed as they are
  double row_bytes = 0;    ///< of GradientRows, a replica's
  double kept_bytes = 0;   ///< outputs of a microbatch
  double sent_bytes = 0;   ///< to later stages
};

TANDEM_ONCE std::vector<double> part_times(CostGraph const& graph);

/// @param microbatches  of a replica, each of which takes what @p graph says
TANDEM_ONCE std::vector<ChainStage> chain_stages(CostGraph const& graph,
                                                 std::vector<int> const& sizes,
                                                 int microbatches = 1);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::vector<double> part_times(CostGraph const& graph) {
  std::vector<double> times;
  for (CostNode const& node : graph.node) {
    times.resize(std::max(times.size(), static_cast<std::size_t>(node.part) + 1));
    times[static_cast<std::size_t>(node.part)] += node.time();
  }
  return times;
}

TANDEM_ONCE std::vector<ChainStage> chain_stages(CostGraph const& graph,
                                                 std::vector<int> const& sizes, int microbatches) {
  std::vector<ChainStage> stages(sizes.size());
  std::vector<std::size_t> stage_of(graph.node.size());
  std::size_t stage = 0;
  int end = sizes[0];
  for (std::size_t n = 0; n < graph.node.size(); ++n) {
    CostNode const& node = graph.node[n];
    while (node.part >= end) {
      end += sizes[++stage];
    }
    stage_of[n] = stage;
    stages[stage].forward += node.forward;
    stages[stage].backward += node.backward;
    stages[stage].parameter_bytes += static_cast<double>(node.parameter_bytes);
    stages[stage].dense_bytes += node.dense_bytes();
    stages[stage].row_bytes += node.rows.bytes(microbatches);
    stages[stage].kept_bytes += node.time() > 0 ? static_cast<double>(node.output_bytes) : 0;
  }
  std::vector<std::size_t> furthest = stage_of;
  for (CostEdge const& edge : graph.edge) {
    auto const from = static_cast<std::size_t>(edge.from);
    furthest[from] = std::max(furthest[from], stage_of[static_cast<std::size_t>(edge.to)]);
  }
  for (std::size_t n = 0; n < graph.node.size(); ++n) {
    for (std::size_t s = stage_of[n]; s < furthest[n]; ++s) {
      stages[s].sent_bytes += static_cast<double>(graph.node[n].output_bytes);
    }
  }
  return stages;
}

}  // namespace tandem::detail

#endif
