// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What replicas of a MeshLayout send each other in a step: sums of gradients, and weights.

#include <algorithm>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/kernel_times.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/scale/mesh_layout.hpp>

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
                               MeshRoom const& room);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

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

}  // namespace tandem::detail

#endif
