// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// mesh_step: seconds of a training step of a transformer on a MeshLayout, in closed form.

#include <algorithm>
#include <cmath>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/plan/cost/kernel_times.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/scale/block_costs.hpp>
#include <tandem/plan/scale/mesh_layout.hpp>
#include <tandem/plan/scale/mesh_memory.hpp>

namespace tandem::detail {

/// What there is beside which replicas can send, on a device of the busiest stage.
struct MeshRoom {
  double microbatches = 1;    ///< of a step
  double forward = 0;         ///< seconds of a block, of a microbatch
  double backward = 0;        ///< the same, with what is computed again
  double between_passes = 0;  ///< of a microbatch: what messages leave of it
  double blocks = 1;          ///< of the device
  double buckets = 1;         ///< whose sums begin one behind the other
};

/// One unit of @p gathered and @p reduced seconds behind another, each beside the next one's
/// computation: the first gather and the last sum show, and what takes longer than @p computing.
constexpr double shown_units(double units, double gathered, double reduced, double computing) {
  return gathered + reduced + (units - 1) * std::max(0.0, gathered + reduced - computing);
}

}  // namespace tandem::detail

namespace tandem {

/// Expected largest of @p count independent standard normal numbers, within 0.02. One has 0.
/// Source: Blom, "Statistical Estimates and Transformed Beta-Variables", 1958: the normal quantile
/// at (count - 3/8) / (count + 1/4).
/// @throws ContractError  count < 1
TANDEM_ONCE [[nodiscard]] double heaviest_of(int count);

/// Where the seconds of a step go; seconds() is their sum.
struct MeshStep {
  double computing = 0;  ///< of the busiest stage, all microbatches, what is computed again too
  double products = 0;   ///< collectives of tensor parallelism, as far as they show
  double messages = 0;   ///< from stage to stage, as far as they show
  double filling = 0;    ///< the pipeline's idle time
  double waiting = 0;    ///< for slow nodes, and the replica whose samples are the heaviest
  double sums = 0;       ///< of gradients among replicas, and weights to them; as far as they show
  double update = 0;

  [[nodiscard]] double seconds() const {
    return computing + products + messages + filling + waiting + sums + update;
  }
};

namespace detail {

/// Seconds of a block on a device, of one microbatch or of a chunk of its time.
struct MeshPasses {
  double computing = 0;
  double forward = 0;  ///< of these
  double products = 0;
};

}  // namespace detail

/// A step of @p layout. The busiest stage's microbatches one after another; a pipeline idles for
/// (pipeline - 1) / chunks of them. Four all-reduces of a block and microbatch, of B T C elements,
/// among the devices that share products, two more where the block is computed again in full; with
/// sequence_rows each is a reduce-scatter and an all-gather, and rows are gathered twice more.
/// Where devices have parts of sequences, keys and values of a block are gathered, and the sums of
/// their gradients scattered. What stages send does not run beside computation, nor do sums, unless
/// the layout overlaps them: then only what is longer than the computation shows, and of the sums
/// those of one chunk of blocks; sharded weights, see sum_seconds(), are gathered beside it in any
/// case. In chunks of time a microbatch is as many passes, one behind another, so that the pipeline
/// fills with a chunk, and does not idle longer: p devices do one microbatch in K chunks p K / (K +
/// p - 1) times as fast as one. The update reads and writes gradient, weights and states once, and
/// reads the gradient for its norm.
/// @throws ContractError  mesh_problem() has something to say
/// Source: Narayanan et al., arXiv:2104.04473, sections 2 and 3.
TANDEM_ONCE [[nodiscard]] MeshStep mesh_step(MeshTask const& task, MeshLayout const& layout);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Seconds that show of what replicas send in a step.
///
/// | shards     | of each weight, n replicas: n / (n - 1) of what a device sends            |
/// | ---------- | ------------------------------------------------------------------------- |
/// | none       | the all-reduce of its gradient: 2                                         |
/// | state      | a reduce-scatter of that, and a gather of the new weight: 2               |
/// | gradients  | the reduce-scatter of each of m microbatches, and the gather: m + 1       |
/// | parameters | of each microbatch a gather in forward, one in backward, and the sum: 3 m |
///
/// Weights of sharded parameters are gathered a block ahead, and their gradients summed a block
/// behind, beside the computation of the blocks, as FSDP does. All else stands between the passes,
/// unless the layout overlaps sums: then one unit, and what is longer than there is room.
/// Source: Rajbhandari et al., arXiv:1910.02054, section 7; Zhao et al., "PyTorch FSDP",
///         arXiv:2304.11277, section 3.3
TANDEM_ONCE double sum_seconds(MeshTask const& task, MeshLayout const& layout, double parameters,
                               MeshRoom const& room) {
  int const copies = layout.data * layout.sequence;  // of each weight
  if (copies == 1) {
    return 0;
  }
  Machine const& machine = task.machine;
  DeviceGroup const replicas{copies, layout.tensor};
  double const gradient = parameters * task.gradient_bytes;
  double const weight = parameters * element_bytes(task.precision);
  if (layout.shard == Sharding::parameters) {
    double const gathered = all_gather_seconds(machine, replicas, weight / room.blocks);
    double const reduced = reduce_scatter_seconds(machine, replicas, gradient / room.blocks);
    return room.microbatches * (shown_units(room.blocks, gathered, 0, room.forward) +
                                shown_units(room.blocks, gathered, reduced, room.backward));
  }
  bool const shards = layout.shard != Sharding::none;
  double const scattered = shards ? reduce_scatter_seconds(machine, replicas, gradient) : 0;
  double const last = shards ? scattered + all_gather_seconds(machine, replicas, weight)
                             : all_reduce_seconds(machine, replicas, gradient);
  auto const shown = [&](double seconds) {
    return layout.overlap.sums ? std::max(seconds / room.buckets, seconds - room.between_passes)
                               : seconds;
  };
  double const before = layout.shard == Sharding::gradients ? room.microbatches - 1 : 0;
  return before * shown(scattered) + shown(last);
}

TANDEM_ONCE MeshPasses block_passes(MeshTask const& task, MeshLayout const& layout) {
  KernelTimes const times{task.machine, task.precision};
  MeshPasses passes;
  TensorShare const share{layout.tensor, layout.sequence * layout.time_chunks,
                          layout.sequence_rows};
  for (CostNode const& node : block_costs(task.sizes, times, share, layout.microbatch)) {
    passes.computing += node.time();
    passes.forward += node.forward;
    bool const scores = task.sizes.attention == AttentionKernels::separate;
    if (layout.recomputation == Recomputation::selective && scores && node.name == "Attention") {
      passes.computing += node.forward;
    }
  }
  bool const again = layout.recomputation == Recomputation::full;
  passes.computing += again ? passes.forward : 0;
  if (layout.tensor > 1) {
    double const bytes = pass_rows(task.sizes, layout) * static_cast<double>(task.sizes.width) *
                         element_bytes(task.precision);
    DeviceGroup const group{layout.tensor, 1};
    double const gathered = all_gather_seconds(task.machine, group, bytes);
    // Two of a pass; rows are gathered a second time where the weights' gradients read them.
    double const one = layout.sequence_rows
                           ? reduce_scatter_seconds(task.machine, group, bytes) + gathered
                           : all_reduce_seconds(task.machine, group, bytes);
    passes.products = 2 * one * (again ? 3 : 2) + (layout.sequence_rows ? 2 * gathered : 0);
  }
  if (layout.sequence > 1) {  // keys and values, and their gradients
    double const columns =
        static_cast<double>(task.sizes.projections() - task.sizes.width) / layout.tensor;
    double const bytes =
        mesh_rows(task.sizes, layout) * layout.sequence * columns * element_bytes(task.precision);
    DeviceGroup const group{layout.sequence, layout.tensor};
    passes.products += (again ? 2 : 1) * all_gather_seconds(task.machine, group, bytes) +
                       reduce_scatter_seconds(task.machine, group, bytes);
  }
  return passes;
}

/// Of a microbatch, or of a chunk of its time: a stage receives and sends, in both passes, for each
/// of its chunks, what its devices that share products have a part of each; these gather it unless
/// they have rows.
TANDEM_ONCE double message_seconds(MeshTask const& task, MeshLayout const& layout) {
  if (layout.pipeline == 1) {
    return 0;
  }
  double const bytes = pass_rows(task.sizes, layout) * static_cast<double>(task.sizes.width) *
                       element_bytes(task.precision);
  int const next = layout.tensor * layout.sequence * layout.data;
  double const send = neighbour_seconds(task.machine, next, bytes / layout.tensor);
  double const gather = layout.tensor > 1 && !layout.sequence_rows
                            ? all_gather_seconds(task.machine, {layout.tensor, 1}, bytes)
                            : 0;
  return 2 * layout.chunks * (send + gather);
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE double heaviest_of(int count) {
  expects(count >= 1, "heaviest_of(count): give one load or more");
  double const rest = 0.625 / (count + 0.25);  // of the distribution, above it
  double low = 0;
  double high = 10;
  for (int step = 0; count > 1 && step < 60; ++step) {
    double const middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > rest ? low : high) = middle;
  }
  return low;
}

TANDEM_ONCE MeshStep mesh_step(MeshTask const& task, MeshLayout const& layout) {
  std::string const problem = mesh_problem(task, layout);
  expects(problem.empty(), "mesh_step(task, layout): ask mesh_problem() first, it says why not");
  TransformerSizes const& sizes = task.sizes;
  Machine const& machine = task.machine;
  KernelTimes const times{machine, task.precision};
  detail::MeshPasses const block = detail::block_passes(task, layout);
  detail::StageBlocks const blocks = detail::stage_blocks(sizes.layers, layout.pipeline);

  double const rows = detail::pass_rows(sizes, layout);
  double const words = words_costs(sizes, times, rows).time();
  double const logits = logits_costs(sizes, times, layout.tensor, rows).time();
  auto const all = static_cast<double>(blocks.most);
  auto const last = static_cast<double>(blocks.last);
  double const stage = layout.pipeline == 1
                           ? all * block.computing + words + logits
                           : std::max(all * block.computing, last * block.computing + logits);
  double products = all * block.products;
  double const sent = detail::message_seconds(task, layout);
  double messages = sent;
  products = layout.overlap.products ? std::max(0.0, products - stage) : products;
  messages = layout.overlap.messages ? std::max(0.0, messages - stage) : messages;
  double const microbatches = static_cast<double>(task.batch) / layout.data / layout.microbatch;
  double const count = microbatches * layout.time_chunks;  // of passes

  MeshStep step{
      .computing = count * stage, .products = count * products, .messages = count * messages};
  step.filling = (layout.pipeline - 1) * (stage + products + messages) / layout.chunks;
  int const nodes = (layout.devices() - 1) / machine.devices_per_node + 1;
  step.waiting = machine.slow.expected(nodes) * count * stage +
                 task.spread * heaviest_of(layout.data) /
                     std::sqrt(microbatches * layout.microbatch) * count * stage;

  double const parameters = detail::stage_parameters(sizes, layout);
  int const copies = layout.data * layout.sequence;  // of each weight
  bool const shared = machine.devices_per_node <= layout.tensor * copies;
  double const room = stage - (shared ? sent : 0);  // messages have the adapters meanwhile
  step.sums = detail::sum_seconds(
      task, layout, parameters,
      {.microbatches = microbatches,
       .forward = block.forward * layout.time_chunks,
       .backward = (block.computing - block.forward) * layout.time_chunks,
       .between_passes = std::max(0.0, room) * layout.time_chunks,
       .blocks = all,
       .buckets = layout.pipeline > 1 ? static_cast<double>(layout.chunks) : all});
  double const master = master_bytes(task.precision);
  step.update = times.pass(parameters / layout.parts(Sharding::gradients) * task.gradient_bytes) +
                times.pass(parameters / layout.parts(Sharding::state) *
                           (task.gradient_bytes + 2 * master * (1 + task.states) +
                            element_bytes(task.precision)));
  return step;
}

}  // namespace tandem

#endif
