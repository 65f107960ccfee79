// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// complete_row(): a device's passes and messages, then the step's tail: reductions, updates and
/// exchanges. The one place that knows where they stand: ranks run these rows, pictures draw them,
/// verify() proves them.

#include <cstdint>
#include <utility>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/row_ends.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>

namespace tandem {

/// What a row of a model with two copies depends on besides itself: how the other rows go.
struct RowOrder {
  /// Whether the gradients of a part are reduced on the way, when its copies end.
  bool reduces_early = true;
  /// Whether each stage of two models is updated when it ends: all losses are known by then, and no
  /// gradient of replicas is on its way.
  bool updates_early = false;
};

namespace detail {

/// Writes one row into sink(action).
template <class Sink>
class RowCompletion {
 public:
  constexpr RowCompletion(ActionSpan row, StageMapView const& map, StepRules const& rules,
                          RowOrder order, int device, Sink& sink)
      : row_{row},
        map_{map},
        rules_{rules},
        order_{order},
        device_{device},
        first_stage_{first_stage(map, device)},
        ends_{row, map},
        updated_{map.stages},
        sink_{sink} {}

  constexpr void write() {
    for (int i = 0; i < row_.size; ++i) {
      sink_(row_.data[i]);
      if (map_.devices == 1) {
        if (ends_.last_forward() == i) {
          begin_losses();
        }
      } else if (order_.updates_early) {
        add_behind(i);
      }
    }
    if (rules_.sums_gradients(map_)) {
      rules_.each_bucket(map_, device_, [this](int stage, int bucket) {
        add(ActionKind::reduce_gradient, stage, bucket);
      });
    }
    await_losses();
    if (rules_.sums_norm(map_)) {
      add(ActionKind::reduce_norm, first_stage_);
    }
    if (rules_.keeps_two()) {
      end_two_models();
    } else {
      add(ActionKind::update, first_stage_);
    }
  }

 private:
  constexpr void add(ActionKind kind, int stage, int index = 0) {
    sink_(Action{.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = index});
  }

  // What stands behind the i-th action: or, if that is a pass whose result is sent, behind the
  // message, so that the receiver does not wait.
  constexpr void add_behind(int i) {
    Action const& action = row_.data[i];
    if (is_compute(action.kind)) {
      last_forward_ = ends_.last_forward() == i || last_forward_;
      ended_ = ends_.ends_stage(row_, i) ? action.stage : ended_;
    }
    Action const* const next = i + 1 < row_.size ? row_.data + i + 1 : nullptr;
    bool const sends =
        next != nullptr && next->stage == action.stage &&
        (next->kind == ActionKind::send_forward || next->kind == ActionKind::send_backward);
    if (!sends && std::exchange(last_forward_, false)) {
      begin_losses();
    }
    if (!sends && ended_ >= 0) {
      await_losses();
      update(std::exchange(ended_, -1));
    }
  }

  constexpr void begin_losses() {
    if (rules_.sums_losses(map_) && !std::exchange(began_losses_, true)) {
      add(ActionKind::begin_loss, first_stage_);
    }
  }
  constexpr void await_losses() {
    begin_losses();
    if (rules_.sums_losses(map_) && !std::exchange(awaited_losses_, true)) {
      add(ActionKind::await_loss, first_stage_);
    }
  }

  constexpr void update(int stage) {
    if (rules_.averaging.overlapped) {
      add(ActionKind::exchange, stage);
    }
    add(ActionKind::update, stage);
    updated_[updates_++] = stage;
  }

  constexpr void end_two_models() {
    for (int part = map_.parts() - 1; !order_.updates_early && part >= 0; --part) {
      for (int s = part; s < map_.stages; s += map_.parts()) {
        if (map_.device[s] == device_) {
          update(s);
        }
      }
    }
    for (int i = 0; !rules_.averaging.overlapped && i < updates_; ++i) {
      add(ActionKind::exchange, updated_[i]);
    }
  }

  ActionSpan row_;
  StageMapView const& map_;
  StepRules const& rules_;
  RowOrder order_;
  int device_;
  int first_stage_;
  RowEnds ends_;
  Scratch<int> updated_;  // stages, in the order of their updates
  int updates_ = 0;
  bool began_losses_ = false;
  bool awaited_losses_ = false;
  bool last_forward_ = false;  // was the last pass
  int ended_ = -1;             // the stage of which the last pass was the last, or -1
  Sink& sink_;
};

}  // namespace detail

/// Calls sink(action) for the whole row of a device.
/// @param table  lowered: passes and messages
/// @param order  row_order() of the table
template <class Table, class Sink>
constexpr void complete_row(Table const& table, StageMapView const& map, StepRules const& rules,
                            RowOrder order, int device, Sink& sink) {
  detail::RowCompletion<Sink>{row_of(table, device), map, rules, order, device, sink}.write();
}

/// The same for an evaluation or a prediction: the forward passes, then the sum of the losses.
template <class Table, class Sink>
constexpr void complete_forward_row(Table const& table, StageMapView const& map,
                                    StepRules const& rules, int device, Sink& sink) {
  for (Action const& action : row_of(table, device)) {
    if (action.kind == ActionKind::forward || action.kind == ActionKind::send_forward ||
        action.kind == ActionKind::receive_forward) {
      sink(action);
    }
  }
  for (ActionKind const kind : {ActionKind::begin_loss, ActionKind::await_loss}) {
    if (rules.sums_losses(map)) {
      sink(Action{.kind = kind, .stage = static_cast<std::int16_t>(first_stage(map, device))});
    }
  }
}

}  // namespace tandem
