// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// search_schedule(): a table for given times and memory, by list scheduling under many rules, and
/// the library's own schedules; never worse than the best of these.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/schedule/time/timeline.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace tandem {

/// What a schedule is sought for. Stages are alike; a device has one, or two of half the size.
struct ScheduleTask {
  int devices = 1;
  int microbatches = 1;
  ActionCosts costs{};  ///< of a whole device's part: of a half one each takes half as long
  int memory = 0;       ///< microbatches of a device's part that may be live on it; 0: any number
};

/// A table that was found, and what it takes in half ticks of ScheduleTask::costs.
struct FoundSchedule {
  std::string found_by{};  ///< the name of the library's schedule that it is, or "list"
  ActionRows rows{};       ///< passes
  RuntimeMap map{};
  Ticks half_ticks = 0;  ///< from the first pass to the last one's end
  /// No table with one copy of the model and one or two parts a device takes less, whatever its
  /// memory.
  Ticks bound_half_ticks = 0;
};

namespace detail {

/// Rules of a list schedule: caps, and what goes first where several passes could begin.
struct ListRules {
  bool turns = false;  ///< two half stages a device, which turn back at the last one
  int slope = 0;       ///< by which devices have fewer microbatches of their first stage
  int ahead = 0;       ///< of the first device's: below the most
  int waiting = 0;     ///< weight gradients that may wait, before one goes before a forward
  bool forward_first = false;
};

/// What lives on each device: the microbatches of a row, in half parts.
template <class = void>
int most_live_halves(ActionRows const& rows, int halves_of_pass) {
  int most = 0;
  for (std::vector<Action> const& row : rows) {
    int live = 0;
    for (Action const& action : row) {
      live += action.kind == ActionKind::forward ? halves_of_pass : 0;
      most = std::max(most, live);
      bool const ends =
          action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient;
      live -= ends ? halves_of_pass : 0;
    }
  }
  return most;
}

/// Always does next, of all devices, the pass that can begin first.
template <class = void>
class ListTable {
 public:
  /// @param most  half microbatches that may be live on a device
  ListTable(ScheduleTask const& task, ListRules const& rules, int most)
      : task_{task},
        rules_{rules},
        stages_{task.devices * (rules.turns ? 2 : 1)},
        most_{rules.turns ? most : most / 2},
        stage_(static_cast<std::size_t>(stages_)),
        now_(static_cast<std::size_t>(task.devices)),
        rows_(static_cast<std::size_t>(task.devices)) {
    for (Stage& stage : stage_) {
      stage.forward_end.resize(static_cast<std::size_t>(task.microbatches));
      stage.input_end.resize(static_cast<std::size_t>(task.microbatches));
    }
  }

  /// Empty where the caps leave nothing that could go on.
  ActionRows run() {
    std::int64_t left = std::int64_t{3} * stages_ * task_.microbatches;
    for (; left > 0; --left) {
      Pass best;
      for (int d = 0; d < task_.devices; ++d) {
        Pass const one = next(d);
        best = one.start >= 0 && (best.start < 0 || one.start < best.start) ? one : best;
      }
      if (best.start < 0) {
        return {};
      }
      take(best);
    }
    return std::move(rows_);
  }

 private:
  struct Stage {
    int forwards = 0;
    int inputs = 0;
    int weights = 0;
    std::vector<Ticks> forward_end{};
    std::vector<Ticks> input_end{};
  };
  struct Pass {
    Ticks start = -1;
    int order = 0;
    int stage = 0;
    ActionKind kind = ActionKind::forward;
  };

  [[nodiscard]] Stage const& at(int stage) const { return stage_[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] int device_of(int stage) const {
    return stage < task_.devices ? stage : 2 * task_.devices - 1 - stage;
  }
  [[nodiscard]] int live(int stage) const { return at(stage).forwards - at(stage).weights; }
  [[nodiscard]] int live_on(int device) const {
    return live(device) + (rules_.turns ? live(2 * task_.devices - 1 - device) : 0);
  }
  [[nodiscard]] int waiting_on(int device) const {
    int const other = 2 * task_.devices - 1 - device;
    return at(device).inputs - at(device).weights +
           (rules_.turns ? at(other).inputs - at(other).weights : 0);
  }
  // Of the first of a device's stages; the second one has what is left, which is one or more.
  [[nodiscard]] int cap(int stage) const {
    if (stage >= task_.devices) {
      return most_;
    }
    int const all = most_ - (rules_.turns ? 1 : 0);
    return std::max(1, all - rules_.ahead - rules_.slope * stage / 2);
  }

  // When a pass can begin as far as others are concerned; -1: that is not known yet.
  [[nodiscard]] Ticks ready(ActionKind kind, int stage) const {
    Stage const& own = at(stage);
    if (kind == ActionKind::forward) {
      auto const i = static_cast<std::size_t>(own.forwards);
      bool const room = live(stage) < cap(stage) && live_on(device_of(stage)) < most_;
      if (own.forwards == task_.microbatches || !room) {
        return -1;
      }
      return stage == 0                              ? 0
             : at(stage - 1).forwards > own.forwards ? at(stage - 1).forward_end[i]
                                                     : -1;
    }
    if (kind == ActionKind::input_gradient) {
      auto const i = static_cast<std::size_t>(own.inputs);
      if (own.inputs == own.forwards) {
        return -1;
      }
      return stage + 1 == stages_                ? own.forward_end[i]
             : at(stage + 1).inputs > own.inputs ? at(stage + 1).input_end[i]
                                                 : -1;
    }
    return own.weights < own.inputs ? own.input_end[static_cast<std::size_t>(own.weights)] : -1;
  }

  [[nodiscard]] int order(ActionKind kind, int device) const {
    bool const hurry = waiting_on(device) > rules_.waiting;
    switch (kind) {
      case ActionKind::forward:
        return rules_.forward_first ? 0 : 2;
      case ActionKind::input_gradient:
        return 1;
      default:
        return hurry ? (rules_.forward_first ? 0 : 1) + 1 : 5;
    }
  }

  [[nodiscard]] Pass next(int device) const {
    Pass best;
    for (int chunk = rules_.turns ? 1 : 0; chunk >= 0; --chunk) {
      int const stage = chunk == 0 ? device : 2 * task_.devices - 1 - device;
      for (ActionKind const kind :
           {ActionKind::input_gradient, ActionKind::forward, ActionKind::weight_gradient}) {
        Ticks const known = ready(kind, stage);
        if (known < 0) {
          continue;
        }
        Pass const one{.start = std::max(known, now_[static_cast<std::size_t>(device)]),
                       .order = order(kind, device),
                       .stage = stage,
                       .kind = kind};
        bool const sooner = best.start < 0 || one.start < best.start ||
                            (one.start == best.start && one.order < best.order);
        best = sooner ? one : best;
      }
    }
    return best;
  }

  void take(Pass const& one) {
    Stage& own = stage_[static_cast<std::size_t>(one.stage)];
    int const device = device_of(one.stage);
    Ticks const cost = one.kind == ActionKind::forward          ? task_.costs.forward
                       : one.kind == ActionKind::input_gradient ? task_.costs.input_gradient
                                                                : task_.costs.weight_gradient;
    Ticks const end = one.start + (rules_.turns ? cost : 2 * cost);
    now_[static_cast<std::size_t>(device)] = end;
    int& count = one.kind == ActionKind::forward          ? own.forwards
                 : one.kind == ActionKind::input_gradient ? own.inputs
                                                          : own.weights;
    if (one.kind != ActionKind::weight_gradient) {
      (one.kind == ActionKind::forward ? own.forward_end
                                       : own.input_end)[static_cast<std::size_t>(count)] = end;
    }
    rows_[static_cast<std::size_t>(device)].push_back(pass(one.kind, one.stage, count++));
  }

  ScheduleTask task_;
  ListRules rules_;
  int stages_;
  int most_;  // microbatches of the device's stages that may be live on it
  std::vector<Stage> stage_;
  std::vector<Ticks> now_;
  ActionRows rows_;
};

/// Keeps the best table that is valid and has the memory.
template <class = void>
class ScheduleSearch {
 public:
  explicit ScheduleSearch(ScheduleTask const& task) : task_{task} {}

  FoundSchedule run() {
    for (NamedSchedule const& one : all_schedules) {
      bool const alike = !one.is_asynchronous && one.copies == 1 && !one.takes_chunks;
      if (alike && one.words.runs_on(task_.devices) &&
          one.fits(task_.devices, task_.microbatches)) {
        offer(one.name, make_schedule(one.name, task_.devices, task_.microbatches),
              one.chunks == 2);
      }
    }
    int const parts =
        task_.memory > 0 ? std::min(task_.memory, 2 * task_.devices + 1) : 2 * task_.devices + 1;
    for (bool const turns : {false, true}) {
      for (int const slope : {0, 1, 2, 4}) {
        for (int const ahead : {0, 1, 2}) {
          for (int const waiting : {0, 1, task_.devices, 2 * task_.devices, task_.microbatches}) {
            for (bool const forward_first : {false, true}) {
              ListRules const rules{turns, slope, ahead, waiting, forward_first};
              offer("list", ListTable<>{task_, rules, 2 * parts}.run(), turns);
            }
          }
        }
      }
    }
    if (best_.rows.empty()) {
      throw ContractError{"search_schedule(task): no table has its activations in the memory of " +
                          std::to_string(task_.memory) + " microbatches a device; give more"};
    }
    best_.bound_half_ticks = bound();
    return std::move(best_);
  }

 private:
  void offer(std::string_view name, ActionRows rows, bool halves) {
    if (rows.empty() ||
        (task_.memory > 0 && most_live_halves(rows, halves ? 1 : 2) > 2 * task_.memory)) {
      return;
    }
    RuntimeMap map = make_map(halves ? ZeroBubbleV::name : OneFOneB::name, task_.devices);
    ActionRows const lowered = lower(rows, map);
    if (!verify(lowered, map, task_.microbatches)) {
      return;
    }
    ActionCosts costs = task_.costs;
    for (Ticks* const cost : {&costs.forward, &costs.input_gradient, &costs.weight_gradient}) {
      *cost *= halves ? 1 : 2;
    }
    Ticks const takes = simulate(lowered, map, costs).makespan;
    if (best_.rows.empty() || takes < best_.half_ticks) {
      best_ = {std::string{name}, std::move(rows), std::move(map), takes, 0};
    }
  }

  // A device's passes, of which the first on the last one to begin stands behind a forward of half
  // a part on each other; and all passes of one microbatch.
  [[nodiscard]] Ticks bound() const {
    Ticks const f = task_.costs.forward;
    Ticks const i = task_.costs.input_gradient;
    Ticks const w = task_.costs.weight_gradient;
    Ticks const busy = 2 * (f + i + w) * task_.microbatches + (task_.devices - 1) * f;
    return std::max(busy, 2 * task_.devices * (f + i));
  }

  ScheduleTask task_;
  FoundSchedule best_;
};

}  // namespace detail

/// The table that takes the least time of those of the library with one copy of the model, and of
/// some hundred list schedules, among all that have their activations in the memory and pass
/// verify() with one message in flight. Messages take no time.
///
/// Cost: of a list schedule, the passes times the devices.
/// @throws ContractError  numbers below 1, or nothing has so little memory
template <class = void>  // compiled where it is called, not by every include
FoundSchedule search_schedule(ScheduleTask const& task) {
  expects(task.devices >= 1 && task.microbatches >= 1 && task.memory >= 0,
          "search_schedule(task): give 1 device or more, 1 microbatch or more, and a memory of 1 "
          "microbatch or more, or 0 for any");
  return detail::ScheduleSearch<>{task}.run();
}

}  // namespace tandem
