// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepPicture: what each rank of a strategy holds, and what it does when in a step; strategy_svg()
/// draws it.
///
/// Shows the rows that ranks run, with what stands around the passes: reductions, updates and
/// exchanges. Messages take no time here, other than in simulate().

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/schedule/picture/picture_bar.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/time/simulation.hpp>
#include <tandem/schedule/time/tail_clocks.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem {

/// A part of the model that a rank has.
struct HeldPart {
  int part = 0;
  int copy = 0;
  int versions = 1;  ///< of its weights
};

struct RankPicture {
  std::vector<HeldPart> holds{};
  std::vector<PictureBar> bars{};
};

struct StepPicture {
  int devices = 1;  ///< of one replica; rank r is device r % devices of replica r / devices
  int copies = 1;
  int parts = 1;
  bool asynchronous = false;
  std::vector<RankPicture> rank{};
};

/// What a step is, but for its passes.
struct PictureRules {
  int replicas = 1;
  Averaging averaging{};
  Asynchrony asynchrony{};
};

/// The picture of the step that complete() makes of the passes @p rows on the devices of @p map; of
/// an asynchronous pipeline, of as many steps as the rows have, updates included.
TANDEM_ONCE StepPicture step_picture(ActionRows const& rows, StageMapView const& map,
                                     PictureRules const& rules, PictureCosts costs = {});

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// In place of Simulation's TailClocks, of which it has the sums of losses and norms: sums of
/// gradients and averages of weights take time, one at a time on a device, while the row goes on;
/// what awaits one in the row goes on when it has ended. It keeps what the devices did as bars.
class PictureTail {
 public:
  /// @param rows   of an asynchronous pipeline, or complete() by @p rules in the order @p order
  /// @param rules  outlive this, as do the rows
  PictureTail(ActionRows const& rows, StageMapView const& map, StepRules const& rules,
              RowOrder order, PictureCosts const& costs)
      : map_{map},
        rules_{rules},
        order_{order},
        costs_{costs},
        meetings_{rows, map},
        devices_(rows.size()),
        device_(rows.size()),
        stage_(static_cast<std::size_t>(map.stages)) {
    for (std::vector<Action> const& row : rows) {
      for (Action const& action : row) {
        stage(action.stage).passes += is_compute(action.kind) ? 1 : 0;
      }
    }
  }

  [[nodiscard]] std::vector<std::vector<PictureBar>> const& devices() const { return devices_; }

  /// As TailClocks::wait().
  bool wait(int device, Action const& action, Ticks& clock, bool& progress) {
    switch (action.kind) {
      case ActionKind::reduce_gradient:
        return await_gradients(device, action, clock, progress);
      case ActionKind::exchange:
        return await_average(device, action, clock);
      default:
        return meetings_.wait(device, action, clock, progress);
    }
  }

  /// An action has ended.
  void note(int device, Action const& action, Interval time) {
    meetings_.note(device, action, time);
    Stage& own = stage(action.stage);
    std::vector<PictureBar>& bars = devices_[static_cast<std::size_t>(device)];
    if (is_compute(action.kind)) {
      --own.passes;
      own.end = time.end;
      bars.push_back({action, time});
    } else if (action.kind == ActionKind::update) {
      own.updated = time.end;
      bars.push_back({action, time});
    } else if (action.kind == ActionKind::reduce_gradient || action.kind == ActionKind::exchange) {
      Interval const beside = action.kind == ActionKind::exchange ? own.averaged : own.reduced;
      if (beside.end > beside.begin) {
        bars.push_back({action, beside, true});
      }
    }
  }

 private:
  static constexpr Ticks unknown = -1;

  struct Device {
    Ticks link = 0;           // when its last collective beside the row ends
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

  // The copies of a stage's part, or the stage alone where each copy has gradients of its own.
  template <class F>
  void each_copy(int s, F const& f) const {
    int const step = rules_.keeps_two() ? map_.stages : map_.parts();
    for (int copy = s % step; copy < map_.stages; copy += step) {
      f(copy);
    }
  }

  bool await_gradients(int d, Action const& action, Ticks& clock, bool& progress) {
    if (Device& own = device_of(action.stage); own.buckets < 0) {
      own.buckets = clock;
      progress = true;
    }
    Stage& own = stage(action.stage);
    if (own.reduced.end < 0) {
      bool const early = begins_gradients_early(map_, rules_, order_.reduces_early, d);
      Ticks begin = 0;
      bool known = true;
      bool alone = rules_.replicas == 1;  // both copies on one device
      each_copy(action.stage, [&](int copy) {
        Device const& device = device_of(copy);
        known = known && (early ? stage(copy).passes == 0 : device.buckets >= 0);
        begin = std::max({begin, device.link,
                          early ? stage(copy).end - costs_.half_backward / 2 : device.buckets});
        alone = alone && map_.device[copy] == d;
      });
      if (!known) {
        return false;
      }
      Interval const time{begin, begin + (alone ? 0 : costs_.message)};
      each_copy(action.stage, [&](int copy) {
        stage(copy).reduced = time;
        device_of(copy).link = time.end;
      });
    }
    clock = std::max(clock, own.reduced.end);
    return true;
  }

  bool await_average(int d, Action const& action, Ticks& clock) {
    Stage& own = stage(action.stage);
    int const twin = (action.stage + map_.parts()) % map_.stages;
    bool const overlapped = rules_.averaging.overlapped;
    if (own.averaged.end < 0) {
      if (!overlapped && (own.updated < 0 || stage(twin).updated < 0)) {
        return false;
      }
      Ticks const ready = overlapped ? 0 : std::max(own.updated, stage(twin).updated);
      Ticks const begin = std::max({ready, device_of(action.stage).link, device_of(twin).link});
      bool const alone = map_.device[twin] == d;
      own.averaged = {begin, begin + (alone ? 0 : costs_.message)};
      stage(twin).averaged = own.averaged;
      device_of(action.stage).link = device_of(twin).link = own.averaged.end;
    }
    clock = std::max(clock, own.averaged.end);
    return true;
  }

  StageMapView map_;
  StepRules const& rules_;
  RowOrder order_;
  PictureCosts costs_;
  TailClocks meetings_;
  std::vector<std::vector<PictureBar>> devices_;
  std::vector<Device> device_;
  std::vector<Stage> stage_;
};

inline bool has_messages(ActionRows const& rows) {
  return std::any_of(rows.begin(), rows.end(), [](std::vector<Action> const& row) {
    return std::any_of(row.begin(), row.end(),
                       [](Action const& action) { return is_message(action.kind); });
  });
}

/// Runs the rows on the clock of simulate(): there is a place for each message, and it takes no
/// time.
TANDEM_ONCE void time_passes(ActionRows const& rows, StageMapView const& map,
                             PictureCosts const& costs, PictureTail& tail) {
  ActionCosts const passes{.forward = costs.forward,
                           .input_gradient = costs.half_backward,
                           .weight_gradient = costs.half_backward,
                           .backward = costs.backward,
                           .update = costs.update,
                           .exchange = 0};
  TimelineRows timeline;
  timeline.device.resize(rows.size());
  for (std::vector<Action> const& row : rows) {
    timeline.action.emplace_back(row.size());
  }
  Simulation{rows, map, passes, std::numeric_limits<int>::max(), tail}.run(timeline);
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE StepPicture step_picture(ActionRows const& rows, StageMapView const& map,
                                     PictureRules const& rules, PictureCosts costs) {
  if (rules.asynchrony.on() && rules.asynchrony.weights == WeightRule::replayed) {
    costs.backward += costs.forward;
  }
  StepRules const step{.replicas = rules.replicas, .averaging = rules.averaging};
  bool const as_it_is = rules.asynchrony.on() || detail::has_messages(rows);
  ActionRows const lowered = as_it_is ? rows : lower(rows, map);
  RowOrder const order = rules.asynchrony.on() ? RowOrder{} : row_order(lowered, map, step);
  ActionRows const whole = rules.asynchrony.on() ? rows : complete(lowered, map, step);
  detail::PictureTail tail{whole, map, step, order, costs};
  detail::time_passes(whole, map, costs, tail);
  StepPicture picture{.devices = map.devices,
                      .copies = map.copies,
                      .parts = map.parts(),
                      .asynchronous = rules.asynchrony.on()};
  int microbatches = 0;
  for (std::vector<PictureBar> const& bars : tail.devices()) {
    for (PictureBar const& bar : bars) {
      microbatches = std::max(microbatches, is_compute(bar.action.kind) ? bar.action.index + 1 : 0);
    }
  }
  for (int replica = 0; replica < rules.replicas; ++replica) {
    for (int d = 0; d < map.devices; ++d) {
      RankPicture rank{.bars = tail.devices()[static_cast<std::size_t>(d)]};
      for (PictureBar& bar : rank.bars) {
        bar.action.index += is_compute(bar.action.kind) ? replica * microbatches : 0;
      }
      for (int s = 0; s < map.stages; ++s) {
        if (map.device[s] == d) {
          int const versions =
              rules.asynchrony.on() ? rules.asynchrony.versions(s % map.parts()) : 1;
          rank.holds.push_back({s % map.parts(), s / map.parts(), versions});
        }
      }
      picture.rank.push_back(std::move(rank));
    }
  }
  return picture;
}

}  // namespace tandem

#endif
