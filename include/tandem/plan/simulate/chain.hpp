// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// chain_costs: what a table costs on a network that is cut into a chain of stages, for
/// simulate_on().

#include <cstddef>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/plan/cost/chain_partition.hpp>
#include <tandem/plan/cost/chain_stages.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem {

namespace detail {

/// Of stages that a chain has; each edge carries what its lower stage sends.
/// @param again  backward passes repeat the forward ones, so that only what is sent is kept
TANDEM_ONCE SimulatedCosts stage_costs(StageMapView const& map,
                                       std::vector<ChainStage> const& stages, bool again);

}  // namespace detail

/// What a table costs whose stages are a chain of consecutive parts of a network, or copies of it.
/// @param graph  costs of one microbatch
/// @param sizes  top-level parts of each stage; if there are none, the stages are cut so that the
///               heaviest is as light as it can be
/// @param again  backward passes repeat the forward ones, so that only what is sent is kept
/// @param microbatches  of a worker
/// @throws ContractError  the network has fewer parts than the table, or there are other sizes
TANDEM_ONCE [[nodiscard]] SimulatedCosts chain_costs(StageMapView const& map,
                                                     CostGraph const& graph,
                                                     std::vector<int> const& sizes = {},
                                                     bool again = false, int microbatches = 1);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE SimulatedCosts stage_costs(StageMapView const& map,
                                       std::vector<ChainStage> const& stages, bool again) {
  SimulatedCosts costs;
  for (int s = 0; s < map.stages; ++s) {
    ChainStage const& stage = stages[static_cast<std::size_t>(s % map.parts())];
    costs.stage.push_back({.forward = stage.forward,
                           .input_gradient = stage.backward / 2,
                           .weight_gradient = stage.backward / 2,
                           .backward = stage.backward + (again ? stage.forward : 0),
                           .kept_bytes = again ? stage.sent_bytes : stage.kept_bytes,
                           .working_bytes = again ? stage.kept_bytes : 0,
                           .gradients = {{stage.dense_bytes, 0, stage.row_bytes}}});
  }
  for (int e = 0; e < map.edges; ++e) {
    costs.message_bytes.push_back(
        stages[static_cast<std::size_t>(map.edge[e].from % map.parts())].sent_bytes);
  }
  return costs;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE SimulatedCosts chain_costs(StageMapView const& map, CostGraph const& graph,
                                       std::vector<int> const& sizes, bool again,
                                       int microbatches) {
  std::vector<double> const times = detail::part_times(graph);
  if (static_cast<std::size_t>(map.parts()) > times.size()) {
    throw ContractError{"chain_costs: the network has only " + std::to_string(times.size()) +
                        " parts for " + std::to_string(map.parts()) + " stages"};
  }
  std::vector<detail::ChainStage> const stages = detail::chain_stages(
      graph, sizes.empty() ? partition_chain(times, map.parts()).sizes : sizes, microbatches);
  expects(static_cast<int>(stages.size()) == map.parts(),
          "chain_costs(map, graph, sizes): give a size for each stage of a copy");
  return detail::stage_costs(map, stages, again);
}

}  // namespace tandem

#endif
