// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankPlan: a device's rows of actions, and how many microbatches its stages hold for them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/engine/prepare/gradient_lives.hpp>
#include <tandem/engine/prepare/memory_plan.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/timeline.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/local_stage.hpp>

namespace tandem {

/// What a rank does in a step. Made at start-up from the strategy's table, or from one that was
/// imported.
struct RankPlan {
  /// Index of a REDUCE_LOSS that begins the sum, which another one awaits.
  static constexpr int begins_reduction = 1;

  Batching batching{};
  std::vector<Action> training{};  ///< ends with an `end`
  std::vector<Action> forward{};   ///< of an evaluation or a prediction, likewise
  Action last_forward{};           ///< of a training step
  bool sums_early = false;     ///< in training the losses are summed behind it, as an action says
  bool ends_from_last = true;  ///< on all devices later parts of the model end before others
  std::vector<StageLife> stages{};
};

/// What a device's plan depends on besides the table.
struct RankPlanTask {
  StageMapView map{};
  int device = 0;
  int ranks = 1;  ///< of the strategy
  int gradient_replicas = 1;
  Averaging averaging{};
  std::span<LocalStage const> stages{};
  std::span<int const> bucket_stage{};  ///< of each bucket of gradients
};

/// That of device @p Program::device. Code that runs once takes such values and not the type, or
/// each device of each strategy would be compiled for itself.
template <class Program>
RankPlanTask rank_plan_task() {
  using Whole = typename Program::Program;
  return {.map = Whole::map,
          .device = Program::device,
          .ranks = Whole::ranks,
          .gradient_replicas = Program::gradient_replicas,
          .averaging = Whole::averaging,
          .stages = Program::stages.stage,
          .bucket_stage = {Program::layout.bucket_stage,
                           static_cast<std::size_t>(Program::layout.buckets)}};
}

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

namespace detail {

/// Whether on every device all forward passes stand before all backward passes.
template <class Table>
bool goes_forward_first(Table const& table) {
  for (int device = 0; device < devices_of(table); ++device) {
    bool back = false;
    for (Action const& action : row_of(table, device)) {
      if (back && action.kind == ActionKind::forward) {
        return false;
      }
      back = back || is_backward_pass(action.kind);
    }
  }
  return true;
}

/// Whether the i-th action is a pass, and the last one of its stage.
inline bool ends_stage(ActionSpan row, int i) {
  bool ends = is_compute(row[i].kind);
  for (int next = i + 1; ends && next < row.size; ++next) {
    ends = !is_compute(row[next].kind) || row[next].stage != row[i].stage;
  }
  return ends;
}

/// Whether a device ends later parts of the model before others.
template <class Table>
bool ends_from_last(Table const& table, StageMapView const& map, int device) {
  ActionSpan const row = row_of(table, device);
  int last = map.parts();
  for (int i = 0; i < row.size; ++i) {
    if (ends_stage(row, i)) {
      int const part = row[i].stage % map.parts();
      if (part > last) {
        return false;
      }
      last = part;
    }
  }
  return true;
}

/// Whether all devices do: only then may each reduce a part when it ends, since two copies of a
/// part are on two devices, and one that waited for the other's row to end could keep it from
/// ending.
template <class Table>
bool all_end_from_last(Table const& table, StageMapView const& map) {
  for (int device = 0; device < map.devices; ++device) {
    if (!ends_from_last(table, map, device)) {
      return false;
    }
  }
  return true;
}

/// Writes the rows of a device.
template <class = void>
class RankPlanner {
 public:
  RankPlanner(RankPlanTask const& task, ActionRows const& table) : task_{task}, table_{table} {}

  RankPlan plan(Batching const& batching) {
    plan_.batching = batching;
    plan_.ends_from_last = task_.map.copies == 1 || all_end_from_last(table_, task_.map);
    plan_.sums_early = updates_early();
    ActionSpan const row = row_of(table_, task_.device);
    for (int i = 0; i < row.size; ++i) {
      Action const action = row[i];
      plan_.training.push_back(action);
      bool const is_forward = action.kind == ActionKind::forward;
      if (is_forward || action.kind == ActionKind::send_forward ||
          action.kind == ActionKind::receive_forward) {
        plan_.forward.push_back(action);
      }
      plan_.last_forward = is_forward ? action : plan_.last_forward;
      if (plan_.sums_early) {
        add_behind(row, i);
      }
    }
    end();
    return std::move(plan_);
  }

 private:
  // What stands behind the i-th action: or, if that is a pass whose result is sent, behind the
  // message, so that the receiver does not wait.
  void add_behind(ActionSpan row, int i) {
    last_forward_ = row[i].kind == ActionKind::forward ? is_last_forward(row, i) : last_forward_;
    ended_ = ends_stage(row, i) ? row[i].stage : ended_;
    bool const sends = i + 1 < row.size && row[i + 1].stage == row[i].stage &&
                       (row[i + 1].kind == ActionKind::send_forward ||
                        row[i + 1].kind == ActionKind::send_backward);
    if (!sends && std::exchange(last_forward_, false) && task_.ranks > 1) {
      add(ActionKind::reduce_loss, first_stage(), RankPlan::begins_reduction);
    }
    if (!sends && ended_ >= 0) {
      reduce_losses();
      update(std::exchange(ended_, -1));
    }
  }
  static bool is_last_forward(ActionSpan row, int i) {
    for (int next = i + 1; next < row.size; ++next) {
      if (row[next].kind == ActionKind::forward) {
        return false;
      }
    }
    return true;
  }

  // Whether stages are updated as they end: all losses are known by then, no gradient of replicas
  // is on its way, and the two ends of an exchange begin them in one order.
  [[nodiscard]] bool updates_early() const {
    return keeps_two() && task_.gradient_replicas == 1 && goes_forward_first(table_) &&
           plan_.ends_from_last;
  }
  [[nodiscard]] bool keeps_two() const { return task_.averaging.keeps_two(); }
  [[nodiscard]] int first_stage() const { return task_.stages[0].id; }

  void add(std::vector<Action>& row, ActionKind kind, int stage, int index = 0) {
    row.push_back({.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = index});
  }
  void add(ActionKind kind, int stage, int index = 0) { add(plan_.training, kind, stage, index); }

  void reduce_losses() {
    if (task_.ranks > 1 && !reduces_losses_) {
      add(ActionKind::reduce_loss, first_stage());
      reduces_losses_ = true;
    }
  }

  void update(int stage) {
    if (task_.averaging.overlapped) {
      add(ActionKind::exchange, stage);
    }
    add(ActionKind::update, stage);
    updated_.push_back(stage);
  }

  void end() {
    for (int bucket = 0;
         task_.gradient_replicas > 1 && bucket < static_cast<int>(task_.bucket_stage.size());
         ++bucket) {
      add(ActionKind::reduce_gradient, task_.bucket_stage[static_cast<std::size_t>(bucket)],
          bucket);
    }
    reduce_losses();
    if (task_.map.devices > 1 && !keeps_two()) {
      add(ActionKind::reduce_norm, first_stage());
    }
    if (!keeps_two()) {
      add(ActionKind::update, first_stage());
    }
    for (int part = task_.map.parts() - 1; keeps_two() && !plan_.sums_early && part >= 0; --part) {
      for (LocalStage const& own : task_.stages) {
        if (own.part == part) {
          update(own.id);
        }
      }
    }
    for (std::size_t i = 0; !task_.averaging.overlapped && i < updated_.size(); ++i) {
      add(ActionKind::exchange, updated_[i]);
    }
    add(ActionKind::end, first_stage());
    if (task_.ranks > 1) {
      add(plan_.forward, ActionKind::reduce_loss, first_stage());
    }
    add(plan_.forward, ActionKind::end, first_stage());
  }

  RankPlanTask const& task_;
  ActionRows const& table_;
  RankPlan plan_;
  bool reduces_losses_ = false;
  bool last_forward_ = false;  // was the last pass
  int ended_ = -1;             // the stage of which the last pass was the last, or -1
  std::vector<int> updated_;   // stages, in the order of their updates
};

}  // namespace detail

/// The plan of a device: the passes and messages of its row, then the reductions and the update.
/// Evaluation does the forward passes in the same order.
///
/// Where two models are averaged each stage has an update of its own, as soon as it can, behind
/// which the exchange of its weights begins; it is awaited at the end, or, overlapped, before the
/// next step's update.
/// @param batching  with as many microbatches as @p table has
template <class = void>
RankPlan make_rank_plan(RankPlanTask const& task, ActionRows const& table,
                        Batching const& batching) {
  RankPlan plan = detail::RankPlanner<>{task, table}.plan(batching);
  int const held =
      held_gradients(row_of(table, task.device), task.map, task.stages, batching.microbatches);
  for (LocalStage const& own : task.stages) {
    plan.stages.push_back(
        {.first = own.first,
         .last = own.last,
         .live = live_microbatches(table, task.map, own.id),
         .deferred = std::max(held, deferred_microbatches(table, task.map, own.id)),
         .first_microbatch = task.map.first_microbatch(own.id, batching.microbatches)});
  }
  return plan;
}

/// The same for a device of an asynchronous pipeline.
///
/// No rows, since the device never comes to the end of one: each_action() says what it does next.
template <class Program>
RankPlan make_asynchronous_plan(Batching const& batching) {
  LocalStage const& stage = Program::stages.stage[0];
  return {.batching = batching,
          .stages = {{.first = stage.first, .last = stage.last, .live = Program::places.live()}}};
}

}  // namespace tandem
