// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// search_schedule(): a table for given times, transfers and memory, by list scheduling under many
/// rules, and the library's own schedules; never worse than the best of these.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/schedule/time/timeline.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace tandem {

/// What a schedule is sought for. Stages are alike: a device has one, or several of an equal part.
struct ScheduleTask {
  int devices = 1;
  int microbatches = 1;
  /// Of a whole device's part: of a half one each pass takes half as long. A transfer takes as long
  /// whatever the part, since what crosses a boundary is the same.
  ActionCosts costs{};
  int memory = 0;  ///< microbatches of a device's part that may be live on it; 0: any number
  int chunks = 2;  ///< most stages a device, 1 to 4
  int copies = 1;  ///< most copies of the model, 1 or 2; of two, a device has twice the parameters
};

/// A table that was found, and what it takes.
struct FoundSchedule {
  /// Times are in twelfths of the unit of ScheduleTask::costs, so that those of a half, a third and
  /// a fourth of a part are whole numbers.
  static constexpr int twelfths = 12;

  std::string found_by{};  ///< the name of the library's schedule that it is, or "list"
  int chunks = 1;          ///< stages a device
  ActionRows rows{};       ///< passes
  RuntimeMap map{};
  Ticks time = 0;  ///< from the first pass to the last one's end
  /// No table of so many stages a device and copies as were allowed takes less, whatever its
  /// memory.
  Ticks bound = 0;
};

/// @p costs of a whole device's part, in twelfths, of one of @p chunks equal stages of it.
constexpr ActionCosts stage_costs(ActionCosts costs, int chunks) {
  Ticks const scale = FoundSchedule::twelfths / chunks;
  costs.forward *= scale;
  costs.input_gradient *= scale;
  costs.weight_gradient *= scale;
  costs.backward *= costs.backward < 0 ? 1 : scale;
  costs.transfer *= FoundSchedule::twelfths;
  return costs;
}

namespace detail {

/// Rules of a list schedule: caps, and what goes first where several passes could begin.
struct ListRules {
  bool turns = false;  ///< two half stages a device, which turn back at the last one
  int slope = 0;       ///< by which devices have fewer microbatches of their first stage
  int ahead = 0;       ///< of the first device's: below the most
  int waiting = 0;     ///< weight gradients that may wait, before one goes before a forward
  bool forward_first = false;
};

/// What lives on a device at most, in twelfths of a microbatch of its part.
TANDEM_ONCE int most_live_twelfths(ActionRows const& rows, int chunks);

}  // namespace detail

/// The table that takes the least time of the library's with so many stages a device and copies of
/// the model as are allowed, and of some hundred list schedules of one copy, among all that have
/// their activations in the memory and pass verify() with one message in flight on a link.
///
/// Cost: of a list schedule, the passes times the devices.
/// @throws ContractError  numbers out of range, or nothing has so little memory
TANDEM_ONCE FoundSchedule search_schedule(ScheduleTask const& task);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Always does next, of all devices, the pass that can begin first.
class ListTable {
 public:
  /// @param most  half microbatches that may be live on a device
  ListTable(ScheduleTask const& task, ListRules const& rules, int most)
      : task_{task},
        costs_{stage_costs(task.costs, rules.turns ? 2 : 1)},
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

  // What a message between a stage and the one before it takes; the two at the turn are on one
  // device.
  [[nodiscard]] Ticks message(int stage) const {
    return stage == task_.devices ? 0 : costs_.transfer;
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
             : at(stage - 1).forwards > own.forwards ? at(stage - 1).forward_end[i] + message(stage)
                                                     : -1;
    }
    if (kind == ActionKind::input_gradient) {
      auto const i = static_cast<std::size_t>(own.inputs);
      if (own.inputs == own.forwards) {
        return -1;
      }
      return stage + 1 == stages_                ? own.forward_end[i]
             : at(stage + 1).inputs > own.inputs ? at(stage + 1).input_end[i] + message(stage + 1)
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
    Ticks const end = one.start + costs_.of(one.kind);
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
  ActionCosts costs_;  // of a stage
  ListRules rules_;
  int stages_;
  int most_;  // microbatches of the device's stages that may be live on it
  std::vector<Stage> stage_;
  std::vector<Ticks> now_;
  ActionRows rows_;
};

/// Keeps the best table that is valid and has the memory.
class ScheduleSearch {
 public:
  explicit ScheduleSearch(ScheduleTask const& task) : task_{task} {}

  FoundSchedule run() {
    for (NamedSchedule const& one : all_schedules) {
      bool const may_be = !one.is_asynchronous && one.copies <= task_.copies &&
                          one.words.runs_on(task_.devices) &&
                          one.fits(task_.devices, task_.microbatches);
      int const first = one.takes_chunks ? 2 : one.chunks;
      int const last = one.takes_chunks ? task_.chunks : std::min(one.chunks, task_.chunks);
      for (int chunks = first; may_be && chunks <= last; ++chunks) {
        offer(one.name, make_schedule(one.name, task_.devices, task_.microbatches, chunks),
              make_map(one.name, task_.devices, chunks), chunks);
      }
    }
    int const parts =
        task_.memory > 0 ? std::min(task_.memory, 2 * task_.devices + 1) : 2 * task_.devices + 1;
    for (bool const turns : {false, true}) {
      RuntimeMap const map = make_map(turns ? ZeroBubbleV::name : OneFOneB::name, task_.devices);
      if (turns && task_.chunks < 2) {
        continue;
      }
      for (int const slope : {0, 1, 2, 4}) {
        for (int const ahead : {0, 1, 2}) {
          for (int const waiting : {0, 1, task_.devices, 2 * task_.devices, task_.microbatches}) {
            for (bool const forward_first : {false, true}) {
              ListRules const rules{turns, slope, ahead, waiting, forward_first};
              offer("list", ListTable{task_, rules, 2 * parts}.run(), map, turns ? 2 : 1);
            }
          }
        }
      }
    }
    if (best_.rows.empty()) {
      throw ContractError{"search_schedule(task): no table has its activations in the memory of " +
                          std::to_string(task_.memory) + " microbatches a device; give more"};
    }
    best_.bound = bound();
    return std::move(best_);
  }

 private:
  void offer(std::string_view name, ActionRows rows, RuntimeMap const& map, int chunks) {
    int const memory = FoundSchedule::twelfths * task_.memory;
    if (rows.empty() || (memory > 0 && most_live_twelfths(rows, chunks) > memory)) {
      return;
    }
    ActionRows const lowered = lower(rows, map);
    if (!verify(lowered, map, task_.microbatches)) {
      return;
    }
    Ticks const time = simulate(lowered, map, stage_costs(task_.costs, chunks)).makespan;
    if (best_.rows.empty() || time < best_.time) {
      best_ = {std::string{name}, chunks, std::move(rows), map, time, 0};
    }
  }

  // All passes of one microbatch; and a device's passes, of which the first on the last one to
  // begin stands behind a forward of the least part on each of those from the nearer end.
  [[nodiscard]] Ticks bound() const {
    ActionCosts const whole = stage_costs(task_.costs, 1);
    Ticks const one = whole.forward + whole.input_gradient + whole.weight_gradient;
    auto const begins = [&](int before, int chunks) {
      return before * (whole.forward / chunks + whole.transfer);
    };
    Ticks first = begins(task_.devices - 1, task_.chunks);
    if (task_.copies == 2 && task_.devices % 2 == 0) {
      first = std::min(first, begins(task_.devices / 2 - 1, 1));
    }
    return std::max(first + one * task_.microbatches,
                    task_.devices * (whole.forward + whole.input_gradient) +
                        2 * (task_.devices - 1) * whole.transfer);
  }

  ScheduleTask task_;
  FoundSchedule best_;
};

TANDEM_ONCE int most_live_twelfths(ActionRows const& rows, int chunks) {
  int const of_pass = FoundSchedule::twelfths / chunks;
  int most = 0;
  for (std::vector<Action> const& row : rows) {
    int live = 0;
    for (Action const& action : row) {
      live += action.kind == ActionKind::forward ? of_pass : 0;
      most = std::max(most, live);
      bool const ends =
          action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient;
      live -= ends ? of_pass : 0;
    }
  }
  return most;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE FoundSchedule search_schedule(ScheduleTask const& task) {
  expects(task.devices >= 1 && task.microbatches >= 1 && task.memory >= 0,
          "search_schedule(task): give 1 device or more, 1 microbatch or more, and a memory of 1 "
          "microbatch or more, or 0 for any");
  expects(task.chunks >= 1 && task.chunks <= 4 && (task.copies == 1 || task.copies == 2),
          "search_schedule(task): give 1 to 4 stages a device, and 1 or 2 copies of the model");
  return detail::ScheduleSearch{task}.run();
}

}  // namespace tandem

#endif
