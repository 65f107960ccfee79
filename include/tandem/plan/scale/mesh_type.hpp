// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// mesh_type: a MeshLayout as the library's type, and whether it runs that yet.

#include <string>

#include <tandem/core/config.hpp>
#include <tandem/plan/scale/mesh_layout.hpp>
#include <tandem/plan/scale/sharding.hpp>
#include <tandem/schedule/orders/all.hpp>
#include <tandem/strategy/cut/checkpoint_rule.hpp>
#include <tandem/strategy/value.hpp>
#include <tandem/strategy/value_text.hpp>

namespace tandem {

/// Why the library cannot run @p layout yet, a few words; empty where mesh_type() is to be pasted.
TANDEM_ONCE [[nodiscard]] std::string plan_only(MeshLayout const& layout);

/// The kinds of layouts of which a picture has a line each: replicas of a whole model, the same
/// with sharded gradients or weights, and models that are shared, cut, or both.
inline constexpr int mesh_families = 5;
constexpr int mesh_family(MeshLayout const& layout) {
  bool const shares = layout.tensor * layout.sequence > 1;
  return layout.pipeline > 1              ? (shares ? 4 : 3)
         : shares                         ? 2
         : layout.shard > Sharding::state ? 1
                                          : 0;
}
constexpr char const* mesh_family_name(int family) {
  constexpr char const* names[mesh_families] = {"DataParallel", "DataParallel, sharded",
                                                "TensorParallel", "Pipeline",
                                                "Pipeline, TensorParallel"};
  return names[family];
}

/// The strategy of @p microbatches a replica: "Hybrid<DataParallel<8, ShardedState>,
/// Pipeline<OneFOneB, 16, Auto<4>>, TensorParallel<2>>". What has no type stands in words behind
/// it.
TANDEM_ONCE [[nodiscard]] std::string mesh_type(MeshLayout const& layout, int microbatches);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string plan_only(MeshLayout const& layout) {
  // A line each, to be left out as soon as the library runs it.
  bool const in_chunks = layout.time_chunks > 1;
  return layout.sequence > 1                           ? "parallelism of sequences"
         : in_chunks && layout.sequence_rows           ? "chunks of time beside rows of sequences"
         : in_chunks && layout.shard > Sharding::state ? "chunks of time beside sharded gradients"
         : in_chunks && layout.recomputation == Recomputation::full
             ? "chunks of time that are computed again"
         : layout.sequence_rows && layout.shard > Sharding::state
             ? "sharded gradients beside rows of sequences"
         : layout.recomputation == Recomputation::selective ? "scores alone that are computed again"
         : layout.recomputation == Recomputation::full && layout.pipeline == 1 && layout.tensor == 1
             ? "recomputation outside of a pipeline"
         : layout.data > 4096 ? "more than 4096 replicas"
                              : "";
}

TANDEM_ONCE std::string mesh_type(MeshLayout const& layout, int microbatches) {
  bool const again = layout.recomputation == Recomputation::full;
  bool const piped = layout.pipeline > 1;
  bool const whole = !piped && layout.tensor == 1;
  StrategyValue value{.batching = {.microbatches = microbatches},
                      .checkpoint = {again && !whole ? 1 : CheckpointRule::none},
                      .tensor = layout.tensor,
                      .sequence_rows = layout.sequence_rows};
  if (piped) {
    value.batching.chunks = layout.time_chunks;
    value.cut = CutKind::balanced;
    value.parts = layout.pipeline * layout.chunks;
    value.schedule = layout.chunks > 1 ? "interleaved" : OneFOneB::name;
    value.stages_a_device = layout.chunks;
  }
  Sharding const shard = layout.data > 1 ? layout.shard : Sharding::none;
  return type_text(detail::replicated(value, layout.data, shard)) +
         (layout.sequence > 1 ? " x sequence " + std::to_string(layout.sequence) : "") +
         (layout.recomputation == Recomputation::selective ? ", scores again"
          : again && whole                                 ? ", blocks again"
                                                           : "");
}

}  // namespace tandem

#endif
