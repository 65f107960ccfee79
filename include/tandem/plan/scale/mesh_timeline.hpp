// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// mesh_timeline: a step of a MeshLayout in the simulator, for a picture: the passes of the
/// pipeline of one replica.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/plan/scale/block_costs.hpp>
#include <tandem/plan/scale/mesh_layout.hpp>
#include <tandem/plan/scale/mesh_step.hpp>
#include <tandem/plan/simulate/simulator.hpp>
#include <tandem/schedule/orders/all.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/lower.hpp>

namespace tandem {

/// Some microbatches of a step, at most twice as many as fill the pipeline.
struct MeshTimeline {
  int microbatches = 1;
  SimulatedStep step{};
};

/// The passes of the pipeline of one replica of @p layout, with their messages; none where they are
/// too many to be seen. Sums of gradients and the update are not in it.
/// @throws ContractError  mesh_problem() has something to say
TANDEM_ONCE [[nodiscard]] std::optional<MeshTimeline> mesh_timeline(MeshTask const& task,
                                                                    MeshLayout const& layout);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

inline constexpr int most_drawn_passes = 8000;

/// As the devices of one pipeline see it, of which so many neighbours lie between two.
inline Machine machine_of_pipeline(Machine machine, int stride) {
  bool const apart = stride >= machine.devices_per_node;
  machine.devices_per_node = apart ? 1 : machine.devices_per_node / stride;
  machine.adapters = apart ? 1 : std::max(1, machine.adapters / stride);
  return machine;
}

/// What stages take: blocks, the words before them, the logits behind them; collectives of products
/// in halves, or where blocks are computed again a third in forward.
TANDEM_ONCE SimulatedCosts mesh_costs(MeshTask const& task, MeshLayout const& layout,
                                      RuntimeMap const& map) {
  KernelTimes const times{task.machine, task.precision};
  MeshPasses const block = block_passes(task, layout);
  StageBlocks const blocks = stage_blocks(task.sizes.layers, layout.pipeline);
  double const rows = pass_rows(task.sizes, layout);
  CostNode const words = words_costs(task.sizes, times, rows);
  CostNode const logits = logits_costs(task.sizes, times, layout.tensor, rows);
  bool const again = layout.recomputation == Recomputation::full;
  double const forward = block.forward + block.products / (again ? 3 : 2);
  double const backward = block.computing + block.products - forward;
  double const bytes =
      rows * static_cast<double>(task.sizes.width) * element_bytes(task.precision) / layout.tensor;
  SimulatedCosts costs;
  int const stages = static_cast<int>(map.device.size());
  for (int s = 0; s < stages; ++s) {
    int const device = map.device[static_cast<std::size_t>(s)];
    std::int64_t const own = device == 0                     ? blocks.first
                             : device == layout.pipeline - 1 ? blocks.last
                                                             : blocks.most;
    double const share =
        static_cast<double>(layout.pipeline == 1 ? blocks.most : own) / layout.chunks;
    StageLoad load{.forward = share * forward, .backward = share * backward};
    if (s == 0) {
      load.forward += words.forward;
      load.backward += words.backward;
    }
    if (s == stages - 1) {
      load.forward += logits.forward;
      load.backward += logits.backward;
    }
    costs.stage.push_back(load);
  }
  costs.message_bytes.assign(map.edge.size(), bytes);
  return costs;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::optional<MeshTimeline> mesh_timeline(MeshTask const& task,
                                                      MeshLayout const& layout) {
  expects(mesh_problem(task, layout).empty(),
          "mesh_timeline(task, layout): ask mesh_problem() first, it says why not");
  int const all = task.batch / layout.data / layout.microbatch;
  int const count = std::min(all, 2 * layout.pipeline);
  long const passes = 2L * count * layout.time_chunks * layout.pipeline * layout.chunks;
  if (passes > detail::most_drawn_passes) {
    return std::nullopt;
  }
  std::string const name = layout.pipeline == 1 ? SequentialStages::name
                           : layout.chunks > 1  ? "interleaved"
                                                : OneFOneB::name;
  RuntimeMap const map = make_map(name, layout.pipeline, layout.chunks);
  ActionRows const table = lower(
      chunked(make_schedule(name, layout.pipeline, count, layout.chunks), layout.time_chunks), map);
  Machine const machine =
      detail::machine_of_pipeline(task.machine, layout.tensor * layout.sequence * layout.data);
  return MeshTimeline{count, simulate_on(machine, table, map, detail::mesh_costs(task, layout, map),
                                         {.depth = layout.time_chunks})};
}

}  // namespace tandem

#endif
