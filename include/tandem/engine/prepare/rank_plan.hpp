// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankPlan: a device's rows of actions, and how many microbatches its stages hold for them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/prepare/memory_plan.hpp>
#include <tandem/schedule/orders/asynchronous_table.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/complete_row.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/table/row_order.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/gradient_lives.hpp>

namespace tandem {

/// What a rank does in a step. Made at start-up from the strategy's table, or from one that was
/// imported.
struct RankPlan {
  Batching batching{};
  std::vector<Action> training{};  ///< ends with an `end`
  std::vector<Action> forward{};   ///< of an evaluation or a prediction, likewise
  bool reduces_early = true;       ///< gradients, when their stage ends
  bool updates_early = false;      ///< a stage of two models, when it ends
  std::vector<StageLife> stages{};
};

/// The strategy's batching, with the microbatches of an imported table if there are any.
/// @param replicas  of the world, where the strategy takes any number
TANDEM_ONCE TANDEM_COLD Batching batching_with(DeviceTables const& device, int microbatches,
                                               int replicas);

/// The plan of a device: its whole row, as complete() writes it, and that of an evaluation. Passes
/// over chunks of time and their messages are numbered by their chunks.
/// @param table     lowered
/// @param batching  with as many microbatches as @p table has
TANDEM_ONCE TANDEM_COLD RankPlan make_rank_plan(DeviceTables const& device, ActionRows const& table,
                                                Batching const& batching);

/// The plan of a device of an asynchronous pipeline. Its row of training is empty, since the device
/// never comes to the end of one: each_action() says what it does next.
TANDEM_ONCE TANDEM_COLD RankPlan make_asynchronous_plan(DeviceTables const& device,
                                                        Batching const& batching);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE Batching batching_with(DeviceTables const& device, int microbatches, int replicas) {
  Batching batching = device.batching;
  if (device.any_replicas) {
    batching.replicas = replicas;
    batching.microbatches = microbatches > 0 ? microbatches : batching.microbatches;
    batching.leaves = detail::leaves_of_replica(batching);
  } else if (microbatches > 0) {
    if (batching.leaves == batching.microbatches) {  // one a microbatch, or one in all
      batching.leaves = batching.reproducible ? microbatches : 1;
    }
    batching.microbatches = microbatches;
  }
  return batching;
}

TANDEM_ONCE RankPlan make_rank_plan(DeviceTables const& device, ActionRows const& table,
                                    Batching const& batching) {
  std::vector<std::span<int const>> buckets(static_cast<std::size_t>(device.map.devices));
  buckets[static_cast<std::size_t>(device.device)] = {
      device.layout.bucket_stage, static_cast<std::size_t>(device.layout.buckets)};
  StepRules const rules{.replicas = batching.replicas,
                        .averaging = device.averaging,
                        .buckets = buckets.data(),
                        .ties = device.ties_cross,
                        .slices = device.slices};
  RowOrder const order =
      device.order != nullptr ? device.order(table, device.map, rules) : RowOrder{};
  RankPlan plan{.batching = batching,
                .reduces_early = order.reduces_early,
                .updates_early = order.updates_early};
  auto const numbered = [&batching](Action action) {
    if (batching.chunks > 1) {
      action.index = chunk_of(action.kind, action.index, batching.chunks);
    }
    return action;
  };
  auto training = [&](Action const& action) { plan.training.push_back(numbered(action)); };
  complete_row(table, device.map, rules, order, device.device, training);
  auto forward = [&plan](Action const& action) { plan.forward.push_back(action); };
  complete_forward_row(table, device.map, rules, device.device, forward);
  Action const end{.kind = ActionKind::end,
                   .stage = static_cast<std::int16_t>(first_stage(device.map, device.device))};
  training(end);
  forward(end);
  int const held =
      held_gradients(table, device.device, device.map, device.stages, batching.passes());
  for (LocalStage const& own : device.stages) {
    int const deferred = std::max(held, deferred_microbatches(table, device.map, own.id));
    plan.stages.push_back(
        {.first = own.first,
         .last = own.last,
         .live = whole_chunks(live_microbatches(table, device.map, own.id), batching.chunks),
         .deferred = whole_chunks(deferred, batching.chunks),
         .first_microbatch = device.map.first_microbatch(own.id, batching.passes())});
  }
  return plan;
}

TANDEM_ONCE RankPlan make_asynchronous_plan(DeviceTables const& device, Batching const& batching) {
  LocalStage const& stage = device.stages.front();
  RankPlan plan{
      .batching = batching,
      .stages = {{.first = stage.first, .last = stage.last, .live = device.places.live()}}};
  auto forward = [&plan](Action const& action) { plan.forward.push_back(action); };
  complete_forward_row(lower(asynchronous_table(device.places.rule, 1), device.map), device.map,
                       StepRules{.replicas = batching.replicas}, device.device, forward);
  forward({.kind = ActionKind::end, .stage = static_cast<std::int16_t>(stage.id)});
  return plan;
}

}  // namespace tandem

#endif
