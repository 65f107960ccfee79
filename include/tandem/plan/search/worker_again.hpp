// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Workers of one stage that compute runs of layers again, Checkpoint<Every<k>>: their costs, the
/// runs that are tried, and which workers have some.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/search/worker.hpp>

namespace tandem::detail {

/// Costs with the further forward pass: a whole run's, before its backward pass begins, as the
/// engine has it.
/// @param every  parts of a run; 0: @p graph
TANDEM_ONCE CostGraph costs_again(CostGraph graph, int every);

/// The parts of a run that are tried, ascending: where layers are equal, the square root of their
/// number keeps least (Chen et al. 2016); where they are blocks, a few do.
TANDEM_ONCE std::vector<int> tried_runs(int parts);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE CostGraph costs_again(CostGraph graph, int every) {
  double forward = 0;  // of the run
  int first = 0;       // its first part
  for (std::size_t n = 0; every > 0 && n < graph.node.size(); ++n) {
    bool const is_last = n + 1 == graph.node.size() || graph.node[n + 1].part - first >= every;
    forward += graph.node[n].forward;
    if (is_last) {
      graph.node[n].backward += forward;
      forward = 0;
      first = n + 1 < graph.node.size() ? graph.node[n + 1].part : first;
    }
  }
  return graph;
}

TANDEM_ONCE std::vector<int> tried_runs(int parts) {
  std::vector<int> runs{1, 2, 4, static_cast<int>(std::lround(std::sqrt(parts)))};
  std::sort(runs.begin(), runs.end());
  runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
  runs.erase(std::lower_bound(runs.begin(), runs.end(), parts), runs.end());
  return runs;
}

/// All workers, and behind each of one stage the same with runs.
TANDEM_ONCE std::vector<StrategyValue> with_runs(std::vector<StrategyValue> const& workers) {
  std::vector<StrategyValue> all;
  for (StrategyValue const& worker : workers) {
    all.push_back(worker);
    if (worker.replica_devices() == 1 || worker.shares_all()) {
      all.push_back(worker);
      all.back().checkpoint.every = 1;
    }
  }
  return all;
}

}  // namespace tandem::detail

#endif
