// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Workers whose devices have a tile of every image each (SpatialParallel), alone or in each stage
/// of a pipeline.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/graph/spread/tile_plan.hpp>
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
#include <tandem/plan/search/worker_strategies.hpp>
#include <tandem/plan/search/worker_tensor.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/runtime_cut.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

namespace detail {

/// What is tried on so many devices where those that would share layers have tiles: where these are
/// all, in any shape, and in stages of a pipeline as many rows as columns or twice as many.
/// @param node  devices that have fast links; groups that these do not hold whole are not tried
/// @param wide  as worker_strategies()
TANDEM_ONCE std::vector<StrategyValue> tile_strategies(int devices, int batch, int node,
                                                       bool wide = false);

/// From how many others a rank gets something in an exchange of tiles, at most.
TANDEM_ONCE int tile_peers(Node const& node, bool backward);

}  // namespace detail

/// The step of a worker whose devices have tiles of images: as rewritten_worker_step(), with the
/// exchanges of tiles and the sums of statistics where that has sums of layers. Between stages go
/// whole images. Step.ties is the sum of the gradients of layers in tiles, none of it beside the
/// backward pass.
/// @pre    worker.has_tiles(), and some layer can be computed in these
/// @throws ContractError  as static_costs()
TANDEM_ONCE [[nodiscard]] WorkerStep tiled_worker_step(StrategyValue const& worker,
                                                       GraphView network, Machine const& machine,
                                                       MathPrecision precision, int batch);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Whether some convolution or pool has a window on images.
TANDEM_ONCE bool has_windows(GraphView network) {
  for (int n = 0; n < network.nodes; ++n) {
    Node const& node = network.node[n];
    bool const images = node.in.rank == 3 && node.out.rank == 3;
    if (images && node.sharing.neighbourhood.local &&
        (is_convolution(node.layer) || node.layer == LayerKind::pool)) {
      return true;
    }
  }
  return false;
}

TANDEM_ONCE std::vector<StrategyValue> tile_strategies(int devices, int batch, int node,
                                                       bool wide) {
  std::vector<StrategyValue> all;
  for (StrategyValue worker : rewriting_strategies(devices, batch, false, wide)) {
    for (int height = worker.tensor; height >= 1 && node % worker.tensor == 0; height /= 2) {
      int const width = worker.tensor / height;
      if (worker.shares_all() || height == width || height == 2 * width) {
        worker.tiles = {height, width};
        all.push_back(worker);
      }
    }
  }
  return all;
}

TANDEM_ONCE int tile_peers(Node const& node, bool backward) {
  Sharing const& sharing = node.sharing;
  bool const gathers = sharing.dealt == Dealt::gather;
  if (sharing.dealt != Dealt::halo) {  // a whole image all have, so that one way is for nothing
    return gathers == backward ? 0 : sharing.slices - 1;
  }
  auto const sides = [](int tiles, int before, int after) {
    int const both = (before > 0 ? 1 : 0) + (after > 0 ? 1 : 0);
    return std::min(both, tiles - 1);
  };
  return (sides(sharing.tiles.height, sharing.halo.top, sharing.halo.bottom) + 1) *
             (sides(sharing.tiles.width, sharing.halo.left, sharing.halo.right) + 1) -
         1;
}

/// Of one way of an exchange, for the rank that gets most, so many bytes: its messages one after
/// another.
TANDEM_ONCE double tile_seconds(Node const& node, bool backward, Machine const& machine,
                                double bytes) {
  return bytes > 0 ? tile_peers(node, backward) * machine.inside.latency +
                         bytes / machine.inside.bandwidth
                   : 0;
}

/// Adds what the nodes of a rank's graph take, and its exchanges and sums of statistics, to the
/// nodes of the network that they are of.
/// @param samples  of a microbatch
TANDEM_ONCE void add_tile_times(GraphView rank, StrategyValue const& worker, Machine const& machine,
                                MathPrecision precision, int samples, CostGraph& to) {
  CostGraph const costs = static_costs(rank, machine, precision, samples);
  for (int n = 0; n < rank.nodes; ++n) {
    Node const& node = rank.node[n];
    CostNode const& own = costs.node[static_cast<std::size_t>(n)];
    CostNode& whole = to.node[static_cast<std::size_t>(node.origin)];
    whole.forward += own.forward;
    whole.backward += own.backward;
    if (node.kind == NodeKind::exchange) {
      SpreadVolume const sent = spread_volume(node);
      auto const bytes = [&](std::int64_t elements) {
        return static_cast<double>(elements * element_bytes(precision)) * samples;
      };
      whole.forward += tile_seconds(node, false, machine, bytes(sent.forward));
      whole.backward += tile_seconds(node, true, machine, bytes(sent.backward));
    }
    if (node.joins_tiles()) {  // two sums of each channel and how many there are, doubles
      double const seconds =
          all_reduce_seconds(machine, {worker.tensor, 1}, 8.0 * (2.0 * node.in[0] + 1));
      whole.forward += seconds;
      whole.backward += node.needs_gradient ? seconds : 0;
    }
  }
}

/// What a rank's layers in tiles have of gradients, a part of each, is added up once a step, with
/// all of a bucket that has some: seconds.
TANDEM_ONCE double tile_sums(GraphView rank, StrategyValue const& worker, Machine const& machine,
                             MathPrecision precision) {
  constexpr Batching usual{};
  RuntimeLayout const layout{rank, master_bytes(precision), usual.first_bucket_bytes,
                             usual.bucket_bytes};
  double seconds = 0;
  for (int bucket = 0; bucket < layout.buckets; ++bucket) {
    std::int64_t const begin = layout.bucket_begin[bucket];
    std::int64_t const end = layout.bucket_begin[bucket + 1];
    bool any = false;
    for (int p = 0; p < rank.parameters; ++p) {
      GraphParameter const& own = rank.parameter[p];
      any = any || (own.parameter.role == Role::weight && rank.node[own.node].is_tile() &&
                    layout.offset[p] >= begin && layout.offset[p] < end);
    }
    seconds +=
        any ? all_reduce_seconds(machine, {worker.tensor, 1},
                                 static_cast<double>((end - begin) * master_bytes(precision)))
            : 0;
  }
  return seconds;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE WorkerStep tiled_worker_step(StrategyValue const& worker, GraphView network,
                                         Machine const& machine, MathPrecision precision,
                                         int batch) {
  WorkerStep step;
  if (!machine.has(worker.replica_devices())) {
    step.problem = detail::lacks_devices(worker);
    return step;
  }
  if (machine.devices_per_node % worker.tensor != 0) {
    step.problem = "devices that have tiles of images must divide a node's " +
                   std::to_string(machine.devices_per_node);
    return step;
  }
  int const samples = std::max(1, batch / worker.batching.microbatches);
  CostGraph const idle = [&] {  // the network's bytes
    CostGraph costs = static_costs(network, machine, precision, samples);
    for (CostNode& node : costs.node) {
      node.forward = node.backward = 0;
    }
    return costs;
  }();
  RankSpread const spread = spread_of(network, worker);
  detail::RuntimeGraph const tiled = detail::spread_graph(detail::RuntimeGraph{network}, spread);
  GraphView const rank = tiled.view(network);
  CostGraph whole = idle;
  detail::add_tile_times(rank, worker, machine, precision, samples, whole);
  if (worker.shares_all()) {
    return detail::group_step(worker, network,
                              detail::costs_again(std::move(whole), worker.checkpoint.every),
                              static_costs(rank, machine, precision, samples),
                              detail::tile_sums(rank, worker, machine, precision));
  }
  std::vector<double> const times = detail::part_times(whole);
  Machine const groups = detail::machine_of_groups(machine, worker.tensor);
  if (static_cast<std::size_t>(worker.parts) > times.size()) {
    return worker_step(worker, whole, groups, 0);  // as a problem
  }
  std::vector<int> const sizes = partition_chain(times, worker.parts).sizes;
  RuntimeMap const map = make_map(worker.schedule, worker.devices(), worker.stages_a_device);
  RoutedParts const routed{network, detail::parts_of_nodes(network, sizes), map};
  CostGraph staged = idle;
  double sums = 0;
  for (int d = 0; d < map.devices; ++d) {
    detail::RuntimeGraph const device =
        detail::spread_graph(detail::cut_graph(routed, map, d, false), spread);
    GraphView const own = device.view(network);
    detail::add_tile_times(own, worker, machine, precision, samples, staged);
    sums = std::max(sums, detail::tile_sums(own, worker, machine, precision));
  }
  step = worker_step(worker, staged, groups, 0, sizes);
  step.ties = sums;
  return step;
}

}  // namespace tandem

#endif
