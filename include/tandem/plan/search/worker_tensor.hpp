// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Workers whose devices have other layers or shapes than the network: those that share each layer
/// of a stage (TensorParallel), and those whose passes have a chunk of time (Chunks).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/graph/spread/volume.hpp>
#include <tandem/plan/cost/chain_partition.hpp>
#include <tandem/plan/cost/chain_stages.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/kernel_times.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/plan/search/worker_again.hpp>
#include <tandem/strategy/cut/partition.hpp>
#include <tandem/strategy/cut/runtime_cut.hpp>
#include <tandem/strategy/value.hpp>

namespace tandem {

/// The step of a worker that rewrites the network: its layers' passes and the sums that stand
/// between them, one after another, in the stages' order. A pair of layers that a cut parts is
/// whole on both sides, as the compiler has it. Where all devices share all layers, done, sizes and
/// gradient_bytes are of each device; else of one of each group.
/// @param batch  samples of the worker
/// @pre    it breaks no rule: some layer can be shared
/// @throws ContractError  as static_costs()
TANDEM_ONCE [[nodiscard]] WorkerStep rewritten_worker_step(StrategyValue const& worker,
                                                           GraphView network,
                                                           Machine const& machine,
                                                           MathPrecision precision, int batch);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Of each node what it computes and what the devices of a group send for it, one after the other.
/// @param samples  of a microbatch
TANDEM_ONCE CostGraph rank_costs(GraphView rank, StrategyValue const& worker,
                                 Machine const& machine, MathPrecision precision, int samples) {
  CostGraph costs = static_costs(rank, machine, precision, samples);
  DeviceGroup const group{worker.tensor, 1};
  auto const bytes = [&](std::int64_t elements, std::int64_t each) {
    return static_cast<double>(elements * each) * samples;
  };
  auto const reduced = [&](double sent) {
    return sent > 0 ? all_reduce_seconds(machine, group, sent) : 0;
  };
  for (int n = 0; n < rank.nodes && worker.tensor > 1; ++n) {
    SpreadVolume const own = spread_volume(rank.node[n]);
    CostNode& node = costs.node[static_cast<std::size_t>(n)];
    // Of rows an all-gather or a reduce-scatter, half of an all-reduce.
    double const share = rank.node[n].exchanges_rows() ? 0.5 : 1;
    node.forward += share * reduced(bytes(own.forward, element_bytes(precision)));
    node.backward += share * reduced(bytes(own.backward, element_bytes(precision)));
    if (own.gathered > 0) {
      node.forward += all_gather_seconds(machine, group, bytes(own.gathered, 8));
    }
  }
  return costs;
}

/// The part of each node where each has so many top-level layers.
TANDEM_ONCE std::vector<std::int16_t> parts_of_nodes(GraphView network,
                                                     std::vector<int> const& sizes) {
  std::vector<std::int16_t> part(static_cast<std::size_t>(network.nodes));
  cut_tops(network, sizes.data(), static_cast<int>(sizes.size()), part.data());
  return part;
}

/// Seconds in which a group adds up, once a step, the gradients of layers between, of which each
/// device has its rows' part: those of the stage that has the most.
TANDEM_ONCE double partial_sums(GraphView rank, StrategyValue const& worker, Machine const& machine,
                                MathPrecision precision) {
  std::map<int, double> bytes;  // of each stage
  for (int p = 0; p < rank.parameters; ++p) {
    GraphParameter const& own = rank.parameter[p];
    bytes[rank.node[own.node].stage] += own.partial
                                            ? static_cast<double>(own.parameter.shape.elements()) *
                                                  static_cast<double>(master_bytes(precision))
                                            : 0;
  }
  double most = 0;
  for (auto const& [stage, own] : bytes) {
    most = std::max(most, own);
  }
  return most > 0 ? all_reduce_seconds(machine, {worker.tensor, 1}, most) : 0;
}

/// As the first devices of groups of @p slices neighbours see it, all of which send at once; one
/// that lies in several nodes is alone.
TANDEM_ONCE Machine machine_of_groups(Machine machine, int slices) {
  machine.devices_per_node = std::max(1, machine.devices_per_node / slices);
  machine.adapters = std::max(1, machine.adapters / slices);
  return machine;
}

/// The step of a worker whose devices all share all layers: each takes @p whole, of which @p own is
/// without what it sends, and @p ties seconds behind it.
TANDEM_ONCE WorkerStep group_step(StrategyValue const& worker, GraphView network,
                                  CostGraph const& whole, CostGraph const& own, double ties) {
  double dense = 0;
  for (CostNode const& node : whole.node) {
    dense += node.dense_bytes();
  }
  auto const devices = static_cast<std::size_t>(worker.replica_devices());
  WorkerStep step;
  step.seconds = worker.batching.microbatches * whole.time();
  step.idle = 1 - costs_again(own, worker.checkpoint.every).time() / whole.time();
  step.ties = ties;
  step.sizes = {network.node[network.nodes - 1].top + 1};
  step.done.assign(devices, step.seconds);
  step.gradient_bytes.assign(devices, dense);
  step.row_bytes.assign(devices, 0.0);
  step.stages = chain_stages(whole, step.sizes, worker.batching.microbatches);
  return step;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE WorkerStep rewritten_worker_step(StrategyValue const& worker, GraphView network,
                                             Machine const& machine, MathPrecision precision,
                                             int batch) {
  WorkerStep step;
  if (!machine.has(worker.replica_devices())) {
    step.problem = detail::lacks_devices(worker);
    return step;
  }
  bool const in_stages = !worker.shares_all();
  if (in_stages && machine.devices_per_node % worker.tensor != 0) {
    step.problem = "devices that share layers must divide a node's " +
                   std::to_string(machine.devices_per_node);
    return step;
  }
  RankSpread const spread = spread_of(network, worker);
  int const samples = std::max(1, batch / worker.batching.microbatches);
  auto const costs_of = [&](detail::RuntimeGraph const& rank) {
    return detail::rank_costs(rank.view(network), worker, machine, precision, samples);
  };
  detail::RuntimeGraph const all = detail::spread_graph(detail::RuntimeGraph{network}, spread);
  CostGraph const whole = detail::costs_again(costs_of(all), worker.checkpoint.every);
  if (!in_stages) {
    return detail::group_step(worker, network, whole,
                              static_costs(all.view(network), machine, precision, samples),
                              detail::partial_sums(all.view(network), worker, machine, precision));
  }
  std::vector<double> const times = detail::part_times(whole);
  Machine const groups = detail::machine_of_groups(machine, worker.tensor);
  if (static_cast<std::size_t>(worker.parts) > times.size() || worker.tensor == 1) {
    return worker_step(worker, whole, groups, 0);  // the first: as a problem
  }
  std::vector<int> const sizes = partition_chain(times, worker.parts).sizes;
  std::vector<std::int16_t> const part = detail::parts_of_nodes(network, sizes);
  detail::RuntimeGraph parted{network};
  for (std::size_t n = 0; n < part.size(); ++n) {
    parted.node[n].stage = part[n];
  }
  detail::RuntimeGraph const rank = detail::spread_graph(std::move(parted), spread);
  step = worker_step(worker, costs_of(rank), groups, 0, sizes);
  step.ties = detail::partial_sums(rank.view(network), worker, machine, precision);
  return step;
}

}  // namespace tandem

#endif
