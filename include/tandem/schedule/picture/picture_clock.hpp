// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PictureClock: when each action of a whole step runs, messages taking no time.

#include <algorithm>
#include <cstddef>
#include <vector>

#include <tandem/schedule/picture/picture_bar.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem::detail {

/// Times of one replica's rows: each device does its row in order. A pass begins when the passes
/// that it needs have ended; what awaits a collective goes on when that has ended. Sums of
/// gradients and averages of weights run beside the rows, one at a time on a device; sums of losses
/// and norms take no time, but all devices wait for the last.
class PictureClock {
 public:
  /// @param rows   of an asynchronous pipeline, or complete() by @p rules in the order @p order
  /// @param rules  outlive this, as do the rows
  PictureClock(ActionRows const& rows, StageMapView const& map, StepRules const& rules,
               RowOrder order, PictureCosts const& costs)
      : rows_{rows},
        map_{map},
        rules_{rules},
        order_{order},
        costs_{costs},
        devices_(rows.size()),
        device_(rows.size()),
        stage_(static_cast<std::size_t>(map.stages)) {
    for (std::vector<Action> const& row : rows) {
      for (Action const& action : row) {
        width_ = std::max(width_, static_cast<std::size_t>(action.index) + 1);
        stage(action.stage).passes += is_compute(action.kind) ? 1 : 0;
      }
    }
    forward_.assign(width_ * stage_.size(), -1);
    gradient_ = forward_;
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t d = 0; d < rows.size(); ++d) {
        while (device_[d].next < rows[d].size() && advance(d)) {
          progress = true;
        }
      }
    }
  }

  [[nodiscard]] std::vector<std::vector<PictureBar>>& devices() { return devices_; }

 private:
  static constexpr Ticks unknown = -1;

  struct Device {
    std::size_t next = 0;
    Ticks clock = 0;
    Ticks link = 0;  // when its last collective beside the row ends
    Ticks losses = unknown;
    Ticks norm = unknown;
    Ticks buckets = unknown;  // when it came to await its first one
  };
  struct Stage {
    int passes = 0;  // to come
    Ticks end = 0;   // of the last one
    Ticks updated = unknown;
    Interval reduced{unknown, unknown};
    Interval averaged{unknown, unknown};
  };

  [[nodiscard]] Stage& stage(int s) { return stage_[static_cast<std::size_t>(s)]; }
  [[nodiscard]] Device& device_of(int s) {
    return device_[static_cast<std::size_t>(map_.device[s])];
  }

  bool advance(std::size_t d) {
    Action const& action = rows_[d][device_[d].next];
    Ticks const begin = earliest(d, action);
    if (begin < 0) {
      return false;
    }
    ++device_[d].next;
    device_[d].clock = begin;
    if (is_compute(action.kind) || action.kind == ActionKind::update) {
      Ticks const end = device_[d].clock = begin + costs_.of(action.kind);
      devices_[d].push_back({action, {begin, end}});
      note(action, end);
    }
    return true;
  }

  void note(Action const& action, Ticks end) {
    Stage& own = stage(action.stage);
    if (action.kind == ActionKind::update) {
      own.updated = end;
      return;
    }
    --own.passes;
    own.end = end;
    (action.kind == ActionKind::forward ? forward_ : gradient_)[at(action.stage, action.index)] =
        end;
  }

  // When the device goes on; below 0: not known yet.
  Ticks earliest(std::size_t d, Action const& action) {
    Ticks const clock = device_[d].clock;
    switch (action.kind) {
      case ActionKind::reduce_gradient:
        return await_gradients(d, action, clock);
      case ActionKind::begin_loss:
        return device_[d].losses = clock;
      case ActionKind::await_loss:
        return last_of_all(&Device::losses, clock);
      case ActionKind::reduce_norm:
        device_[d].norm = clock;
        return last_of_all(&Device::norm, clock);
      case ActionKind::exchange:
        return await_average(d, action, clock);
      default:
        return is_compute(action.kind) ? pass(action, clock) : clock;
    }
  }

  Ticks pass(Action const& action, Ticks clock) const {
    bool const forward = action.kind == ActionKind::forward;
    for (int e = 0; e < map_.edges && action.kind != ActionKind::weight_gradient; ++e) {
      int const here = forward ? map_.edge[e].to : map_.edge[e].from;
      int const there = forward ? map_.edge[e].from : map_.edge[e].to;
      if (here == action.stage) {
        Ticks const end = (forward ? forward_ : gradient_)[at(there, action.index)];
        clock = end < 0 || clock < 0 ? unknown : std::max(clock, end);
      }
    }
    return clock;
  }

  Ticks last_of_all(Ticks Device::*when, Ticks clock) const {
    for (Device const& device : device_) {
      clock = device.*when < 0 || clock < 0 ? unknown : std::max(clock, device.*when);
    }
    return clock;
  }

  // The copies of a stage's part, or the stage alone where each copy has gradients of its own.
  template <class F>
  void each_copy(int s, F const& f) const {
    int const step = rules_.keeps_two() ? map_.stages : map_.parts();
    for (int copy = s % step; copy < map_.stages; copy += step) {
      f(copy);
    }
  }

  Ticks await_gradients(std::size_t d, Action const& action, Ticks clock) {
    device_[d].buckets = action.index == 0 ? clock : device_[d].buckets;
    Stage& own = stage(action.stage);
    if (own.reduced.end < 0) {
      bool const early =
          begins_gradients_early(map_, rules_, order_.reduces_early, static_cast<int>(d));
      Ticks begin = 0;
      bool known = true;
      bool alone = rules_.replicas == 1;  // both copies on one device
      each_copy(action.stage, [&](int copy) {
        Device const& device = device_of(copy);
        known = known && (early ? stage(copy).passes == 0 : device.buckets >= 0);
        begin = std::max({begin, device.link,
                          early ? stage(copy).end - costs_.half_backward / 2 : device.buckets});
        alone = alone && map_.device[copy] == static_cast<int>(d);
      });
      if (!known) {
        return unknown;
      }
      Interval const time{begin, begin + (alone ? 0 : costs_.message)};
      each_copy(action.stage, [&](int copy) {
        stage(copy).reduced = time;
        device_of(copy).link = time.end;
      });
    }
    add_beside(d, action, own.reduced);
    return std::max(clock, own.reduced.end);
  }

  Ticks await_average(std::size_t d, Action const& action, Ticks clock) {
    Stage& own = stage(action.stage);
    int const twin = (action.stage + map_.parts()) % map_.stages;
    bool const overlapped = rules_.averaging.overlapped;
    if (own.averaged.end < 0) {
      if (!overlapped && (own.updated < 0 || stage(twin).updated < 0)) {
        return unknown;
      }
      Ticks const ready = overlapped ? 0 : std::max(own.updated, stage(twin).updated);
      Ticks const begin = std::max({ready, device_[d].link, device_of(twin).link});
      bool const alone = map_.device[twin] == static_cast<int>(d);
      own.averaged = {begin, begin + (alone ? 0 : costs_.message)};
      stage(twin).averaged = own.averaged;
      device_[d].link = device_of(twin).link = own.averaged.end;
    }
    add_beside(d, action, own.averaged);
    return std::max(clock, own.averaged.end);
  }

  void add_beside(std::size_t d, Action const& action, Interval time) {
    if (time.end > time.begin) {
      devices_[d].push_back({action, time, true});
    }
  }

  [[nodiscard]] std::size_t at(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * width_ + static_cast<std::size_t>(microbatch);
  }

  ActionRows const& rows_;
  StageMapView map_;
  StepRules const& rules_;
  RowOrder order_;
  PictureCosts costs_;
  std::vector<std::vector<PictureBar>> devices_;
  std::vector<Device> device_;
  std::vector<Stage> stage_;
  std::size_t width_ = 1;
  std::vector<Ticks> forward_;  // end, (stage, microbatch)
  std::vector<Ticks> gradient_;
};

}  // namespace tandem::detail
