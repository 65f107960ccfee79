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
#include <tandem/graph/chunks.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/graph/spread/plan.hpp>
#include <tandem/graph/spread/rank_graph.hpp>
#include <tandem/graph/spread/rewrite.hpp>
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

namespace tandem {

/// How the library deals @p network over @p slices devices.
TANDEM_ONCE [[nodiscard]] Dealing dealing_over(GraphView network, int slices);

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

/// The graph of each device, of all stages.
/// @param part  of each node of the network: its stage; none: there is one
TANDEM_ONCE RuntimeGraph rewritten_network(GraphView network, StrategyValue const& worker,
                                           Dealing const& dealing,
                                           std::vector<int> const& part = {}) {
  RuntimeGraph graph{network};
  for (std::size_t n = 0; n < part.size(); ++n) {
    graph.node[n].stage = part[n];
  }
  if (worker.batching.chunks > 1) {
    take_chunks(graph, worker.batching.chunks);
  }
  return worker.tensor > 1 ? runtime_rank_graph(graph, dealing, worker.sequence_rows) : graph;
}

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

/// Top-level parts of each stage, and with these the stage of each node.
TANDEM_ONCE std::vector<int> parts_of_nodes(GraphView network, std::vector<int> const& sizes) {
  std::vector<int> parts;
  int part = 0;
  int end = sizes[0];
  for (int n = 0; n < network.nodes; ++n) {
    while (network.node[n].top >= end) {
      end += sizes[static_cast<std::size_t>(++part)];
    }
    parts.push_back(part);
  }
  return parts;
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

TANDEM_ONCE Dealing dealing_over(GraphView network, int slices) {
  return {.slices = slices,
          .wishes = slices > 1
                        ? decide_tables(detail::RuntimeGraph{network}, slices, SpreadWishes{})
                        : SpreadWishes{}};
}

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
  Dealing const dealing = dealing_over(network, worker.tensor);
  int const samples = std::max(1, batch / worker.batching.microbatches);
  auto const costs_of = [&](detail::RuntimeGraph const& rank) {
    return detail::rank_costs(rank.view(network), worker, machine, precision, samples);
  };
  detail::RuntimeGraph const all = detail::rewritten_network(network, worker, dealing);
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
  std::vector<int> const part = detail::parts_of_nodes(network, sizes);
  detail::RuntimeGraph const rank = detail::rewritten_network(network, worker, dealing, part);
  step = worker_step(worker, costs_of(rank), groups, 0, sizes);
  step.ties = detail::partial_sums(rank.view(network), worker, machine, precision);
  return step;
}

}  // namespace tandem

#endif
