// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// least_worker_seconds: what a worker's step takes at the least, without a simulation.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/chain_partition.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/schedule/orders/all.hpp>

namespace tandem {

namespace detail {

/// How many times as long as one pass and its backward pass, w, a pipeline of p stages takes for m
/// of them at the least, however it is cut: with a stage's w_s, it waits for the stages before
/// during the first forward and the last backward pass, and does its own m times, so that a step
/// takes w_1 + … + w_(s-1) + m w_s. Of these p sums the mean with weights that give each w_s the
/// same factor is w / (1 - (1 - 1/m)^p). One stage: m.
inline double least_filling(int p, int m) { return 1 / (1 - std::pow(1 - 1.0 / m, p)); }

/// Whether a stage's backward pass is one, which the stage before waits for, and each device has
/// one stage.
TANDEM_ONCE bool fills_stage_by_stage(WorkerStrategy const& worker);

}  // namespace detail

/// Seconds of a worker's step, links of any speed: its devices have to do all passes, that with the
/// heaviest stage its own, of the best cut; and a pipeline has to fill and to drain. Infinity where
/// the network has fewer parts than stages; 0 where gradients are late.
/// @param graph  costs of one microbatch of the network, on one device
TANDEM_ONCE [[nodiscard]] double least_worker_seconds(WorkerStrategy const& worker,
                                                      CostGraph const& graph);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE bool fills_stage_by_stage(WorkerStrategy const& worker) {
  return worker.schedule == OneFOneB::name || worker.schedule == GPipe::name;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE double least_worker_seconds(WorkerStrategy const& worker, CostGraph const& graph) {
  if (worker.asynchrony().on()) {
    return 0;
  }
  std::vector<double> loads = detail::part_times(graph);
  double pass = graph.time();
  for (CostNode const& node : graph.node) {
    double const again = worker.recomputes || worker.every > 0 ? node.forward : 0;
    loads[static_cast<std::size_t>(node.part)] += again;
    pass += again;
  }
  int const stages = worker.is_placed() ? 1 : worker.stages();
  if (static_cast<std::size_t>(stages) > loads.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double least = worker.microbatches * pass / worker.devices;
  bool const a_stage_each = stages == worker.cut_devices() && !worker.keeps_two_copies();
  if (stages > 1 && a_stage_each) {
    least = std::max(least,
                     worker.microbatches * partition_chain(loads, stages).max_load / worker.slices);
  }
  if (stages > 1 && detail::fills_stage_by_stage(worker)) {
    least = std::max(least, pass / worker.slices / worker.time_chunks *
                                detail::least_filling(stages, worker.passes()));
  }
  return least;
}

}  // namespace tandem

#endif
