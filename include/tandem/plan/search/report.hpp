// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a search has found, for numbers of devices: a table for people, JSON for programs.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/plan/epochs/failures.hpp>
#include <tandem/plan/place/text.hpp>
#include <tandem/plan/search/search.hpp>
#include <tandem/plan/search/sources.hpp>

namespace tandem {

/// What a search that leaves workers out knows of all of them.
struct SearchBound {
  double seconds = 0;  ///< C of none is less, even were sums of gradients free; 0: not known
  int workers = 0;     ///< that could be
  int simulated = 0;   ///< of these; the others cannot be faster

  [[nodiscard]] bool known() const { return seconds > 0; }
};

/// The plans for some numbers of devices, ascending.
struct SearchResult {
  struct Devices {
    int devices = 1;
    std::vector<Plan> plans{};  ///< as search_plans() gives them
    SearchBound bound{};        ///< as search_bounded() knows it
  };
  std::vector<Devices> of{};
  double one_device = 0;               ///< C of SingleDevice, in seconds, whether it fits or not
  std::optional<GraphView> network{};  ///< as the task has it
  Failures failures{};                 ///< as the task has them
  SearchSources sources{};
};

/// @param devices  ascending
/// @param sources  what search_sources() says, if a report is to have it
/// @throws ContractError  as search_plans()
TANDEM_ONCE [[nodiscard]] SearchResult search_all(WorkerSteps const& steps,
                                                  EpochCurve const& epochs,
                                                  std::vector<int> const& devices,
                                                  SearchSources sources = {});

/// The best of plans for one number of devices: the data parallel one, or with @p hybrid the best
/// whose workers have more devices than one. Null where there is none that can win.
TANDEM_ONCE [[nodiscard]] Plan const* best_plan(std::vector<Plan> const& plans, bool hybrid);

/// The best plan for the most devices; null where nothing can win.
TANDEM_ONCE [[nodiscard]] Plan const* recommended_plan(SearchResult const& result);

/// How much sooner the best hybrid converges than data parallel: 0.25 is a quarter more speed;
/// negative where it is later. Infinity where only the hybrid can be, its negative likewise.
TANDEM_ONCE [[nodiscard]] double hybrid_gain(std::vector<Plan> const& plans);

namespace detail {

/// Whether E is marked: without points it is one epoch, and no guess.
inline bool marks_epochs(SearchResult const& result, Plan const& plan) {
  return plan.extrapolated && result.sources.has_points;
}

inline std::string plan_head() {
  return right("C", 10) + right("speedup", 9) + right("T ms", 9) + right("S", 11) + right("E", 7) +
         right("GB", 8) + "  strategy (what bounds it)\n";
}

}  // namespace detail

/// A table. Of one number of devices all plans; of several, of each the best data parallel and the
/// best hybrid plan, and from which number of devices on the hybrid wins. Then the type to paste,
/// and where the numbers came from.
/// @pre the result is not empty
TANDEM_ONCE [[nodiscard]] std::string search_text(SearchResult const& result);

/// `results`: for each number of `devices` the `plans` with `strategy`, `T` (seconds), `S`, `E`,
/// `C` (seconds), `speedup`, `memory` (bytes), `bound`, or `strategy` and `problem`; `extrapolated`
/// and `late_gradients` where E is a guess; `post_validated` where T is that of few clipped steps;
/// `hybrid_gain` where both can be; `failures`
/// with `seconds_between`, `checkpoint_interval` and `goodput` where devices fail; `bound` with
/// `C`, below which none is, by what share the first is `above` it, `workers`, and how many were
/// `simulated`, where search_bounded() left some out. `recommended`:
/// the type to paste, null where nothing fits, and the `table` that it names where nodes are
/// placed. `sources`: where the numbers came from.
TANDEM_ONCE [[nodiscard]] std::string search_json(SearchResult const& result);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// C, speedup, T in ms, S, E and GB of a plan that can be.
TANDEM_ONCE std::array<std::string, 6> plan_cells(SearchResult const& result, Plan const& plan) {
  double const c = plan.time.seconds();
  return {duration(c),
          digits(result.one_device / c, 3),
          digits(plan.time.step * 1e3, 4),
          digits(plan.time.steps_per_epoch, 5),
          (marks_epochs(result, plan) ? "~" : "") + digits(plan.time.epochs, 4),
          digits(plan.step.memory / 1e9, 3)};
}

/// What bounds it, and whether its epochs are known.
TANDEM_ONCE std::string plan_remark(Plan const& plan) {
  return plan.bound() + (plan.late_gradients ? "; late gradients" : "") +
         (plan.worker.post_validated ? "; no barrier" : "");
}

TANDEM_ONCE std::string plan_line(SearchResult const& result, Plan const& plan) {
  if (!plan.feasible()) {
    return "  -  " + strategy_label(plan) + ": " + plan.problem + "\n";
  }
  auto const [c, speedup, step, steps, epochs, memory] = plan_cells(result, plan);
  return right(c, 10) + right(speedup, 9) + right(step, 9) + right(steps, 11) + right(epochs, 7) +
         right(memory, 8) + "  " + strategy_label(plan) + "  (" + plan_remark(plan) + ")\n";
}

/// What the marks of the lines that were printed mean.
TANDEM_ONCE std::string marks_text(bool extrapolated, bool late, bool unbarred) {
  return std::string{extrapolated ? "~: E is a guess there, the batch is outside the points\n"
                                  : ""} +
         (late ? "late gradients: E is that of synchronous training, theirs is not known\n" : "") +
         (unbarred ? "no barrier: updates that clip or skip are made twice, so it pays where few "
                     "steps are clipped\n"
                   : "");
}

/// "; of them one fails each 2.8 h, saved each 13 min 92 % of the time trains"; "" where none
/// fails.
TANDEM_ONCE std::string failures_text(Failures const& failures, int devices) {
  if (!failures.known()) {
    return {};
  }
  double const interval = checkpoint_interval(failures, devices);
  return ": one fails each " + duration(seconds_between(failures, devices)) +
         (interval > 0 ? "; saved each " + duration(interval) : "; saved all the time") + ", " +
         digits(100 * goodput(failures, devices), 3) + " % of the time trains";
}

TANDEM_ONCE std::string failures_json(Failures const& failures, int devices) {
  return !failures.known()
             ? ""
             : ", \"failures\": {\"seconds_between\": " +
                   json_number(seconds_between(failures, devices), 9) +
                   ", \"checkpoint_interval\": " +
                   json_number(checkpoint_interval(failures, devices), 9) +
                   ", \"goodput\": " + json_number(goodput(failures, devices), 9) + "}";
}

/// How much longer than the bound the first takes: 0.02 is 2 %; infinity where none can win.
TANDEM_ONCE double above_bound(SearchResult::Devices const& own) {
  bool const has_first = !own.plans.empty() && own.plans.front().can_win();
  return has_first ? own.plans.front().time.seconds() / own.bound.seconds - 1 : HUGE_VAL;
}

/// "; none converges before 2.9 s, were sums of gradients free; the first takes 2.1 % longer; 34 of
/// 411 workers simulated"; "" where no bound is known.
TANDEM_ONCE std::string bound_text(SearchResult::Devices const& own) {
  if (!own.bound.known()) {
    return {};
  }
  double const above = above_bound(own);
  return (is_finite(above) ? "; none converges before " + duration(own.bound.seconds) +
                                 ", were sums of gradients free; the first takes " +
                                 digits(100 * above, 2) + " % longer"
                           : "") +
         "; " + std::to_string(own.bound.simulated) + " of " + std::to_string(own.bound.workers) +
         " workers simulated";
}

TANDEM_ONCE std::string bound_json(SearchResult::Devices const& own) {
  if (!own.bound.known()) {
    return {};
  }
  double const above = above_bound(own);
  return ", \"bound\": {" +
         (is_finite(above) ? "\"C\": " + json_number(own.bound.seconds, 9) +
                                 ", \"above\": " + json_number(above, 6) + ", "
                           : "") +
         "\"workers\": " + std::to_string(own.bound.workers) +
         ", \"simulated\": " + std::to_string(own.bound.simulated) + "}";
}

/// The number of devices from which on a hybrid wins; 0 where it does not on the most.
TANDEM_ONCE int hybrid_wins_from(SearchResult const& result) {
  int wins_from = 0;
  for (std::size_t i = result.of.size(); i-- > 0 && hybrid_gain(result.of[i].plans) > 0;) {
    wins_from = result.of[i].devices;
  }
  return wins_from;
}

TANDEM_ONCE std::string crossover_text(SearchResult const& result) {
  int const wins_from = hybrid_wins_from(result);
  if (wins_from == 0) {
    return {};
  }
  double const gain = hybrid_gain(result.of.back().plans);
  return "a hybrid wins from " + std::to_string(wins_from) + " devices on" +
         (is_finite(gain) ? ", by " + digits(100 * gain, 3) + " % on " +
                                std::to_string(result.of.back().devices) + "\n"
                          : "; data parallel does not fit\n");
}

/// What a placed strategy is declared with.
TANDEM_ONCE std::string table_text(SearchResult const& result, Plan const& plan) {
  if (plan.worker.cut != CutKind::placed) {
    return {};
  }
  return result.network ? placed_text(*result.network, plan.step.placement)
                        : "// table: place<Net>, with devices as plan --place finds them\n";
}

TANDEM_ONCE std::string plan_json(SearchResult const& result, Plan const& plan) {
  std::string json = "{\"strategy\": " + json_text(strategy_type(plan)) +
                     ", \"workers\": " + std::to_string(plan.workers) +
                     ", \"devices_per_worker\": " + std::to_string(plan.worker.replica_devices());
  if (!plan.feasible()) {
    return json + ", \"problem\": " + json_text(plan.problem) + "}";
  }
  double const c = plan.time.seconds();
  json += ", \"T\": " + json_number(plan.time.step, 9) +
          ", \"S\": " + json_number(plan.time.steps_per_epoch, 9) +
          ", \"E\": " + json_number(plan.time.epochs, 9) + ", \"C\": " + json_number(c, 9) +
          ", \"speedup\": " + json_number(result.one_device / c, 9) +
          ", \"memory\": " + json_number(plan.step.memory, 12) +
          ", \"bound\": " + json_text(plan.bound());
  json += marks_epochs(result, plan) ? ", \"extrapolated\": true" : "";
  json += plan.late_gradients ? ", \"late_gradients\": true" : "";
  json += plan.worker.post_validated ? ", \"post_validated\": true" : "";
  return json + "}";
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE SearchResult search_all(WorkerSteps const& steps, EpochCurve const& epochs,
                                    std::vector<int> const& devices, SearchSources sources) {
  SearchResult result{.sources = std::move(sources)};
  SearchTask const& task = steps.task();
  result.one_device = convergence_of(task, epochs, 1, 1, steps.graph().time()).seconds();
  result.network = task.network;
  result.failures = task.failures;
  for (int const count : devices) {
    result.of.push_back({count, search_plans(steps, epochs, count)});
  }
  return result;
}

TANDEM_ONCE Plan const* best_plan(std::vector<Plan> const& plans, bool hybrid) {
  for (Plan const& plan : plans) {
    if (plan.can_win() && (plan.worker.replica_devices() > 1) == hybrid) {
      return &plan;
    }
  }
  return nullptr;
}

TANDEM_ONCE Plan const* recommended_plan(SearchResult const& result) {
  std::vector<Plan> const& last = result.of.back().plans;
  return !last.empty() && last.front().can_win() ? &last.front() : nullptr;
}

TANDEM_ONCE double hybrid_gain(std::vector<Plan> const& plans) {
  Plan const* const hybrid = best_plan(plans, true);
  Plan const* const data = best_plan(plans, false);
  if (hybrid == nullptr || data == nullptr) {
    return hybrid != nullptr ? HUGE_VAL : -HUGE_VAL;
  }
  return data->time.seconds() / hybrid->time.seconds() - 1;
}

TANDEM_ONCE std::string search_text(SearchResult const& result) {
  std::string text;
  bool extrapolated = false;
  bool late = false;
  bool unbarred = false;
  for (SearchResult::Devices const& own : result.of) {
    text += std::to_string(own.devices) + (own.devices == 1 ? " device" : " devices") +
            detail::failures_text(result.failures, own.devices) + detail::bound_text(own) + "\n";
    text += detail::plan_head();
    for (Plan const& plan : own.plans) {
      bool const shown = result.of.size() == 1 || &plan == best_plan(own.plans, false) ||
                         &plan == best_plan(own.plans, true);
      text += shown ? detail::plan_line(result, plan) : "";
      extrapolated =
          extrapolated || (shown && plan.feasible() && detail::marks_epochs(result, plan));
      late = late || (shown && plan.feasible() && plan.late_gradients);
      unbarred = unbarred || (shown && plan.feasible() && plan.worker.post_validated);
    }
  }
  text += detail::marks_text(extrapolated, late, unbarred) + detail::crossover_text(result);
  Plan const* const best = recommended_plan(result);
  if (best == nullptr) {
    text += "nothing fits: take a smaller batch, more devices or more memory\n";
  } else {
    text += detail::table_text(result, *best) + "using Strategy = " + strategy_type(*best) + ";\n";
  }
  return text + sources_text(result.sources);
}

TANDEM_ONCE std::string search_json(SearchResult const& result) {
  std::string json = "{\n  \"results\": [";
  for (SearchResult::Devices const& own : result.of) {
    json += std::string{&own == result.of.data() ? "" : ","} +
            "\n    {\"devices\": " + std::to_string(own.devices);
    if (double const gain = hybrid_gain(own.plans); is_finite(gain)) {
      json += ", \"hybrid_gain\": " + detail::json_number(gain, 6);
    }
    json += detail::failures_json(result.failures, own.devices) + detail::bound_json(own) +
            ", \"plans\": [";
    for (Plan const& plan : own.plans) {
      json += std::string{&plan == own.plans.data() ? "" : ","} + "\n      " +
              detail::plan_json(result, plan);
    }
    json += "]}";
  }
  Plan const* const best = recommended_plan(result);
  json += "],\n  \"recommended\": " +
          (best != nullptr ? detail::json_text(strategy_type(*best)) : "null");
  std::string const table =
      best != nullptr && result.network ? detail::table_text(result, *best) : "";
  json += table.empty() ? "" : ",\n  \"table\": " + detail::json_text(table);
  return json + ",\n  \"sources\": " + sources_json(result.sources) + "\n}\n";
}

}  // namespace tandem

#endif
