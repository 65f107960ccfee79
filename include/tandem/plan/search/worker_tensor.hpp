// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Workers whose devices share each layer (TensorParallel): the graph that each of them has, and
/// their step.

#include <functional>
#include <string>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/spread/rewrite.hpp>
#include <tandem/graph/spread/volume.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/kernel_times.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/plan/search/worker_memory.hpp>

namespace tandem {

/// The graph of each of some ranks that share a network's layers, as spread() makes it for a type.
struct RankGraph {
  struct Sized : detail::RuntimeGraph {
    int tops = 1;
  };
  Sized graph{};

  /// Refers to this. @p network  whose it is
  [[nodiscard]] GraphView view(GraphView network) const { return graph.view(network); }
};

/// What a search asks for the graph of each of so many ranks.
using RankGraphs = std::function<RankGraph(int slices)>;

/// Those of a network that the compiler knows.
template <class = void, GraphSize Size>
[[nodiscard]] RankGraphs rank_graphs(Graph<Size> const& network) {
  return [&network](int slices) {
    detail::Spreader<Size> counter{network, Dealing{.slices = slices}};
    detail::Spreader<Size> maker = counter;
    RankGraph rank;
    rank.graph.resize(counter.walk(static_cast<RankGraph::Sized*>(nullptr)));
    maker.walk(&rank.graph);
    return rank;
  };
}

/// The step of a worker whose devices have @p rank each: what its layers take, and the sums that
/// stand between them, one after another. A problem where nothing is shared.
/// @param batch  samples of the worker, which all devices compute
/// @throws ContractError  as static_costs()
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] WorkerStep tensor_worker_step(WorkerStrategy const& worker, GraphView rank,
                                            Machine const& machine, MathPrecision precision,
                                            int batch) {
  WorkerStep step;
  if (!machine.has(worker.devices)) {
    step.problem = detail::lacks_devices(worker);
    return step;
  }
  SpreadVolume const volume = spread_volume(rank);
  if (volume.reduces + volume.gathers == 0) {
    step.problem =
        "the network has no layers that " + std::to_string(worker.devices) + " devices could share";
    return step;
  }
  CostGraph const costs = static_costs(rank, machine, precision, batch);
  double const busy = costs.time();
  step.seconds = busy;
  double dense = 0;
  double rows = 0;
  for (int n = 0; n < rank.nodes; ++n) {
    SpreadVolume const own = spread_volume(rank.node[n]);
    double const bytes =
        static_cast<double>(own.forward + own.backward) * batch * element_bytes(precision);
    double const gathered = static_cast<double>(own.gathered * 8) * batch;
    step.seconds += bytes > 0 ? all_reduce_seconds(machine, {worker.devices, 1}, bytes) : 0;
    step.seconds += gathered > 0 ? all_gather_seconds(machine, {worker.devices, 1}, gathered) : 0;
    dense += costs.node[static_cast<std::size_t>(n)].dense_bytes();
    rows += costs.node[static_cast<std::size_t>(n)].rows.bytes();
  }
  auto const devices = static_cast<std::size_t>(worker.devices);
  step.idle = 1 - busy / step.seconds;
  step.sizes = {rank.node[rank.nodes - 1].top + 1};
  step.done.assign(devices, step.seconds);
  step.gradient_bytes.assign(devices, dense);
  step.row_bytes.assign(devices, rows);
  return step;
}

}  // namespace tandem
