// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TailClocks: when the sums and averages of a simulated step have come together.

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/message_clocks.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem::detail {

/// A sum is there when the last of its devices has come to it: of losses and norms all that have
/// one in their rows, of gradients those that end a copy of the part, unless the copies have
/// exchanges; an average that is not overlapped when both copies are updated.
class TailClocks {
 public:
  template <class Table>
  constexpr TailClocks(Table const& table, StageMapView const& map)
      : map_{map}, stage_{map.stages}, came_{devices_of(table)} {
    for (int d = 0; d < devices_of(table); ++d) {
      for (Action const& action : row_of(table, d)) {
        any_ = any_ || is_of_tail(action.kind);
      }
    }
    for (int d = 0; any_ && d < devices_of(table); ++d) {
      for (Action const& action : row_of(table, d)) {
        if (is_known(action, map)) {
          count(action);
        }
      }
    }
  }

  static constexpr bool is_of_tail(ActionKind kind) { return kind > ActionKind::receive_backward; }

  /// Moves the clock to when the action of a device can begin. @returns whether that is known;
  /// sets @p progress if another device may wait for this one
  constexpr bool wait(int device, Action const& action, Ticks& clock, bool& progress) {
    switch (action.kind) {
      case ActionKind::await_loss:
        return losses_.wait(clock);
      case ActionKind::reduce_norm:
        if (!came_[device]) {
          came_[device] = progress = true;
          norms_.come(clock);
        }
        return norms_.wait(clock);
      case ActionKind::reduce_gradient:
        for (int s = exchanges_ ? action.stage : action.stage % map_.parts(); s < map_.stages;
             s += exchanges_ ? map_.stages : map_.parts()) {
          if (!stage_[s].passes.wait(clock)) {
            return false;
          }
        }
        return true;
      case ActionKind::exchange:
        return stage_[action.stage].overlapped ||
               stage_[(action.stage + map_.parts()) % map_.stages].updates.wait(clock);
      default:
        return true;
    }
  }

  /// An action of a stage that exists has ended.
  constexpr void note(int, Action const& action, Interval const& time) {
    if (!any_) {
      return;  // nobody asks
    }
    if (is_compute(action.kind)) {
      stage_[action.stage].passes.come(time.end);
    } else if (action.kind == ActionKind::begin_loss) {
      losses_.come(time.end);
    } else if (action.kind == ActionKind::update) {
      stage_[action.stage].updates.come(time.end);
    }
  }

 private:
  /// So many are to come, the last of those so far at `latest`.
  struct Meeting {
    int missing = 0;
    Ticks latest = 0;

    constexpr void come(Ticks time) {
      --missing;
      latest = later(latest, time);
    }
    constexpr bool wait(Ticks& clock) const {
      clock = missing == 0 ? later(clock, latest) : clock;
      return missing == 0;
    }
  };
  struct Stage {
    Meeting passes{};
    Meeting updates{};
    bool overlapped = false;  // its exchange stands before its update
  };

  constexpr void count(Action const& action) {
    Stage& stage = stage_[action.stage];
    switch (action.kind) {
      case ActionKind::begin_loss:
        ++losses_.missing;
        break;
      case ActionKind::reduce_norm:
        ++norms_.missing;
        break;
      case ActionKind::update:
        ++stage.updates.missing;
        break;
      case ActionKind::exchange:
        exchanges_ = true;
        stage.overlapped = stage.updates.missing == 0;
        break;
      default:
        stage.passes.missing += is_compute(action.kind) ? 1 : 0;
    }
  }

  StageMapView map_;
  Scratch<Stage> stage_;
  Scratch<bool> came_;  // whether a device has come to the sum of norms
  Meeting losses_{};
  Meeting norms_{};
  bool exchanges_ = false;
  bool any_ = false;  // rows have tails
};

}  // namespace tandem::detail
