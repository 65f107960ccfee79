// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankPlan: a device's rows of actions, and how many microbatches its stages hold for them.

#include <vector>

#include <tandem/engine/memory_plan.hpp>
#include <tandem/strategy/action_table.hpp>
#include <tandem/strategy/live_microbatches.hpp>
#include <tandem/strategy/local_stage.hpp>
#include <tandem/strategy/options.hpp>
#include <tandem/strategy/stage_map_view.hpp>

namespace tandem {

/// What a rank does in a step. Made at start-up from the strategy's table, or from one that was
/// imported.
struct RankPlan {
  Batching batching{};
  std::vector<Action> training{};  ///< ends with an `end`
  std::vector<Action> forward{};   ///< of an evaluation or a prediction, likewise
  Action last_forward{};           ///< of a training step; the losses are summed behind it
  Action last_evaluation{};
  std::vector<StageLife> stages{};
};

/// The strategy's batching, with the microbatches of an imported table if there are any.
template <class Whole>
Batching batching_with(int microbatches) {
  Batching batching = Whole::batching;
  if (microbatches > 0) {
    if (batching.leaves == batching.microbatches) {  // one a microbatch, or one in all
      batching.leaves = batching.reproducible ? microbatches : 1;
    }
    batching.microbatches = microbatches;
  }
  return batching;
}

/// The plan of device @p Program::device: the passes and messages of its row, then the reductions
/// and the update. Evaluation does the forward passes in the same order.
/// @param batching  with as many microbatches as @p table has
template <class Program, class Table>
RankPlan make_rank_plan(Table const& table, Batching const& batching) {
  using Whole = typename Program::Program;
  RankPlan plan{.batching = batching};
  for (Action const& action : row_of(table, Program::device)) {
    plan.training.push_back(action);
    bool const is_forward = action.kind == ActionKind::forward;
    if (is_forward || action.kind == ActionKind::send_forward ||
        action.kind == ActionKind::receive_forward) {
      plan.forward.push_back(action);
    }
    plan.last_forward = is_forward ? action : plan.last_forward;
  }
  plan.last_evaluation = plan.last_forward;
  auto const add = [](std::vector<Action>& row, ActionKind kind, int stage, int index) {
    row.push_back({.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = index});
  };
  int const stage = Program::stages.stage[0].id;
  if (Program::gradient_replicas > 1) {
    for (int bucket = 0; bucket < Program::layout.buckets; ++bucket) {
      add(plan.training, ActionKind::reduce_gradient, Program::layout.bucket_stage[bucket], bucket);
    }
  }
  if (Whole::ranks > 1) {
    add(plan.training, ActionKind::reduce_loss, stage, 0);
    add(plan.forward, ActionKind::reduce_loss, stage, 0);
  }
  if (Whole::devices > 1) {
    add(plan.training, ActionKind::reduce_norm, stage, 0);
  }
  add(plan.training, ActionKind::update, stage, 0);
  add(plan.training, ActionKind::end, stage, 0);
  add(plan.forward, ActionKind::end, stage, 0);
  StageMapView const map{Whole::map};
  for (LocalStage const& own : Program::stages.stage) {
    plan.stages.push_back(
        {.first = own.first,
         .last = own.last,
         .live = live_microbatches(table, map, own.id),
         .deferred = deferred_microbatches(table, map, own.id),
         .first_microbatch = map.first_microbatch(own.id, batching.microbatches)});
  }
  return plan;
}

}  // namespace tandem
