// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepPicture: what each rank of a strategy holds, and what it does when in a step; strategy_svg()
/// draws it.
///
/// Other than simulate(), which times passes and their messages, this shows what stands around
/// them, too: reductions, updates and exchanges. Messages take no time here.

#include <algorithm>
#include <vector>

#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem {

/// A part of the model that a rank has.
struct HeldPart {
  int part = 0;
  int copy = 0;
  int versions = 1;  ///< of its weights
};

/// Something that a rank does; `beside` its passes if other threads or links do it.
struct PictureBar {
  Action action;
  Interval time;
  bool beside = false;
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

/// How long things take in a picture: a backward pass twice as long as a forward one.
struct PictureCosts {
  Ticks forward = 2;
  Ticks backward = 4;
  Ticks half_backward = 2;  ///< an input gradient, a weight gradient
  Ticks update = 1;
  Ticks message = 2;  ///< a reduction, an exchange

  [[nodiscard]] constexpr Ticks of(ActionKind kind) const {
    return kind == ActionKind::forward    ? forward
           : kind == ActionKind::backward ? backward
           : is_compute(kind)             ? half_backward
           : kind == ActionKind::update   ? update
                                          : message;
  }
};

/// What a step is, but for its passes.
struct PictureRules {
  int replicas = 1;
  Averaging averaging{};
  Asynchrony asynchrony{};
};

namespace detail {

/// Times of the passes of one replica: each device does its row in order, and a pass begins when
/// the passes that it needs have ended.
class PictureClock {
 public:
  PictureClock(ActionRows const& rows, StageMapView const& map, PictureCosts const& costs)
      : rows_{rows}, map_{map}, costs_{costs}, devices_(rows.size()), next_(rows.size()) {
    for (std::vector<Action> const& row : rows) {
      for (Action const& action : row) {
        width_ = std::max(width_, static_cast<std::size_t>(action.index) + 1);
      }
    }
    forward_.assign(width_ * static_cast<std::size_t>(map.stages), -1);
    gradient_ = forward_;
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t d = 0; d < rows.size(); ++d) {
        while (next_[d] < rows[d].size() && advance(d)) {
          progress = true;
        }
      }
    }
  }

  [[nodiscard]] std::vector<std::vector<PictureBar>>& devices() { return devices_; }

  /// When the last backward pass of a stage ends.
  [[nodiscard]] Ticks gradient_end(int stage) const {
    auto const first = gradient_.begin() + static_cast<std::ptrdiff_t>(at(stage, 0));
    return *std::max_element(first, first + static_cast<std::ptrdiff_t>(width_));
  }

 private:
  bool advance(std::size_t d) {
    Action const& action = rows_[d][next_[d]];
    Ticks const clock = devices_[d].empty() ? 0 : devices_[d].back().time.end;
    Ticks const begin = is_compute(action.kind) ? earliest(action, clock) : clock;
    if (begin < 0) {
      return false;
    }
    ++next_[d];
    if (is_message(action.kind)) {
      return true;
    }
    Ticks const end = begin + costs_.of(action.kind);
    devices_[d].push_back({action, {begin, end}});
    if (action.kind == ActionKind::forward) {
      forward_[at(action.stage, action.index)] = end;
    } else if (is_compute(action.kind)) {
      gradient_[at(action.stage, action.index)] = end;
    }
    return true;
  }

  // Below 0: not known yet.
  [[nodiscard]] Ticks earliest(Action const& action, Ticks clock) const {
    bool const forward = action.kind == ActionKind::forward;
    for (int e = 0; e < map_.edges && action.kind != ActionKind::weight_gradient; ++e) {
      int const here = forward ? map_.edge[e].to : map_.edge[e].from;
      int const there = forward ? map_.edge[e].from : map_.edge[e].to;
      if (here == action.stage) {
        Ticks const end = (forward ? forward_ : gradient_)[at(there, action.index)];
        clock = end < 0 || clock < 0 ? -1 : std::max(clock, end);
      }
    }
    return clock;
  }

  [[nodiscard]] std::size_t at(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * width_ + static_cast<std::size_t>(microbatch);
  }

  ActionRows const& rows_;
  StageMapView map_;
  PictureCosts costs_;
  std::vector<std::vector<PictureBar>> devices_;
  std::vector<std::size_t> next_;
  std::size_t width_ = 1;
  std::vector<Ticks> forward_;  // end, (stage, microbatch)
  std::vector<Ticks> gradient_;
};

/// What stands behind the passes of a synchronous step: gradients are summed over the replicas and,
/// if the rule says so, over the copies of each part; each device updates; the copies exchange.
inline void finish_picture(PictureClock& clock, StageMapView const& map, PictureRules const& rules,
                           PictureCosts const& costs) {
  auto& devices = clock.devices();
  std::vector<Ticks> link(devices.size(), 0);  // when the device's last reduction ends
  std::vector<Ticks> updated(devices.size(), 0);
  std::vector<std::size_t> partner(devices.size());
  bool const two = rules.averaging.keeps_two();
  bool const sums = rules.replicas > 1 || (map.copies > 1 && !two);
  auto const bar = [](ActionKind kind, int stage, Ticks begin, Ticks length, bool beside) {
    Action const action{.kind = kind, .stage = static_cast<std::int16_t>(stage)};
    return PictureBar{action, {begin, begin + length}, beside};
  };
  for (int part = map.parts() - 1; part >= 0; --part) {  // as backward reaches them
    Ticks begin = 0;
    for (int copy = 0; copy < map.copies; ++copy) {
      int const s = copy * map.parts() + part;
      auto const d = static_cast<std::size_t>(map.device[s]);
      begin = std::max({begin, link[d], clock.gradient_end(s) - costs.half_backward / 2});
      partner[d] =
          static_cast<std::size_t>(map.device[(map.copies - copy - 1) * map.parts() + part]);
    }
    for (int copy = 0; copy < map.copies && sums; ++copy) {
      int const s = copy * map.parts() + part;
      auto const d = static_cast<std::size_t>(map.device[s]);
      devices[d].push_back(bar(ActionKind::reduce_gradient, s, begin, costs.message, true));
      link[d] = begin + costs.message;
    }
  }
  for (std::size_t d = 0; d < devices.size(); ++d) {
    int const stage = devices[d].empty() ? 0 : devices[d].front().action.stage;
    Ticks begin = link[d];
    for (PictureBar const& one : devices[d]) {
      begin = std::max(begin, one.time.end);
    }
    if (two && rules.averaging.overlapped) {
      devices[d].push_back(bar(ActionKind::exchange, stage, 0, costs.message, true));
    }
    devices[d].push_back(bar(ActionKind::update, stage, begin, costs.update, false));
    updated[d] = begin + costs.update;
  }
  for (std::size_t d = 0; d < devices.size() && two && !rules.averaging.overlapped; ++d) {
    devices[d].push_back(bar(ActionKind::exchange, devices[d].front().action.stage,
                             std::max(updated[d], updated[partner[d]]), costs.message, false));
  }
}

}  // namespace detail

/// The picture of a step whose passes are @p rows, on the devices of @p map; of an asynchronous
/// pipeline, of as many steps as the rows have, updates included.
template <class = void>  // compiled where it is called, not by every include
StepPicture step_picture(ActionRows const& rows, StageMapView const& map, PictureRules const& rules,
                         PictureCosts costs = {}) {
  if (rules.asynchrony.on() && rules.asynchrony.weights == WeightRule::replayed) {
    costs.backward += costs.forward;
  }
  detail::PictureClock clock{rows, map, costs};
  if (!rules.asynchrony.on()) {
    detail::finish_picture(clock, map, rules, costs);
  }
  StepPicture picture{.devices = map.devices,
                      .copies = map.copies,
                      .parts = map.parts(),
                      .asynchronous = rules.asynchrony.on()};
  int microbatches = 0;
  for (std::vector<PictureBar> const& bars : clock.devices()) {
    for (PictureBar const& bar : bars) {
      microbatches = std::max(microbatches, bar.action.index + 1);
    }
  }
  for (int replica = 0; replica < rules.replicas; ++replica) {
    for (int d = 0; d < map.devices; ++d) {
      RankPicture rank{.bars = clock.devices()[static_cast<std::size_t>(d)]};
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
