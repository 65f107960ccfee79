// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a search has found, for numbers of devices: a table for people, JSON for programs.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/plan/placement_report.hpp>
#include <tandem/plan/search.hpp>

namespace tandem {

/// The plans for some numbers of devices, ascending.
struct SearchResult {
  struct Devices {
    int devices = 1;
    std::vector<Plan> plans{};  ///< as search_plans() gives them
  };
  std::vector<Devices> of{};
  double one_device = 0;  ///< C of SingleDevice, in seconds, whether it fits or not
};

/// @param devices  ascending
/// @throws ContractError  as search_plans()
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] SearchResult search_all(WorkerSteps const& steps, EpochCurve const& epochs,
                                      std::vector<int> const& devices) {
  SearchResult result;
  SearchTask const& task = steps.task();
  double const batch = task.batch_per_worker;
  result.one_device = ConvergenceTime{.step = steps.graph().time(),
                                      .steps_per_epoch = std::max(1.0, task.samples / batch),
                                      .epochs = epochs.epochs(batch)}
                          .seconds();
  for (int const count : devices) {
    result.of.push_back({count, search_plans(steps, epochs, count)});
  }
  return result;
}

/// Of plans for one number of devices: data parallel, and the best where workers have more devices
/// than one. Null where there is none that can be.
template <class = void>
[[nodiscard]] Plan const* best_plan(std::vector<Plan> const& plans, bool hybrid) {
  for (Plan const& plan : plans) {
    if (plan.feasible() && (plan.worker.devices > 1) == hybrid) {
      return &plan;
    }
  }
  return nullptr;
}

/// How much sooner the best hybrid converges than data parallel: 0.25 is a quarter more speed;
/// negative where it is later. Infinity where only the hybrid can be, its negative likewise.
template <class = void>
[[nodiscard]] double hybrid_gain(std::vector<Plan> const& plans) {
  Plan const* const hybrid = best_plan(plans, true);
  Plan const* const data = best_plan(plans, false);
  if (hybrid == nullptr || data == nullptr) {
    return hybrid != nullptr ? HUGE_VAL : -HUGE_VAL;
  }
  return data->time.seconds() / hybrid->time.seconds() - 1;
}

namespace detail {

inline std::string duration(double seconds) {
  return seconds < 120    ? digits(seconds, 3) + " s"
         : seconds < 7200 ? digits(seconds / 60, 3) + " min"
         : seconds < 2e5  ? digits(seconds / 3600, 3) + " h"
                          : digits(seconds / 86400, 3) + " days";
}

inline std::string right(std::string text, std::size_t width) {
  text.insert(0, text.size() < width ? width - text.size() : 0, ' ');
  return text;
}

template <class = void>
std::string plan_line(Plan const& plan, double one_device) {
  if (!plan.feasible()) {
    return "  -  " + strategy_type(plan) + ": " + plan.problem + "\n";
  }
  double const c = plan.time.seconds();
  return right(duration(c), 10) + right(digits(one_device / c, 3), 9) +
         right(digits(plan.time.step * 1e3, 4), 9) +
         right(digits(plan.time.steps_per_epoch, 5), 9) + right(digits(plan.time.epochs, 4), 7) +
         right(digits(plan.step.memory / 1e9, 3), 8) + "  " + strategy_type(plan) + "  (" +
         plan.bound() + ")\n";
}

inline std::string plan_head() {
  return right("C", 10) + right("speedup", 9) + right("T ms", 9) + right("S", 9) + right("E", 7) +
         right("GB", 8) + "  strategy (what bounds it)\n";
}

}  // namespace detail

/// For one number of devices all plans; for several, of each the best data parallel and the best
/// hybrid plan, and from which number of devices on the hybrid wins. Ends with the type to paste.
/// @pre the result is not empty
template <class = void>
[[nodiscard]] std::string search_text(SearchResult const& result) {
  std::string text;
  for (SearchResult::Devices const& own : result.of) {
    text += std::to_string(own.devices) + (own.devices == 1 ? " device\n" : " devices\n");
    text += detail::plan_head();
    for (Plan const& plan : own.plans) {
      bool const shown = result.of.size() == 1 || &plan == best_plan(own.plans, false) ||
                         &plan == best_plan(own.plans, true);
      text += shown ? detail::plan_line(plan, result.one_device) : "";
    }
  }
  int wins_from = 0;
  for (std::size_t i = result.of.size(); i-- > 0 && hybrid_gain(result.of[i].plans) > 0;) {
    wins_from = result.of[i].devices;
  }
  std::vector<Plan> const& last = result.of.back().plans;
  double const gain = hybrid_gain(last);
  if (wins_from > 0) {
    text += "a hybrid wins from " + std::to_string(wins_from) + " devices on" +
            (std::isfinite(gain) ? ", by " + detail::digits(100 * gain, 3) + " % on " +
                                       std::to_string(result.of.back().devices) + "\n"
                                 : "; data parallel does not fit\n");
  }
  if (last.empty() || !last.front().feasible()) {
    return text + "nothing fits: take a smaller batch, more devices or more memory\n";
  }
  return text + "using Strategy = " + strategy_type(last.front()) + ";\n";
}

/// `results`: for each number of `devices` the `plans` with `strategy`, `T` (seconds), `S`, `E`,
/// `C` (seconds), `speedup`, `memory` (bytes), `bound`, or `strategy` and `problem`; `hybrid_gain`
/// where both can be. `recommended`: the type to paste, null where nothing fits.
template <class = void>
[[nodiscard]] std::string search_json(SearchResult const& result) {
  std::string json = "{\n  \"results\": [";
  for (SearchResult::Devices const& own : result.of) {
    json += std::string{&own == result.of.data() ? "" : ","} +
            "\n    {\"devices\": " + std::to_string(own.devices);
    if (double const gain = hybrid_gain(own.plans); std::isfinite(gain)) {
      json += ", \"hybrid_gain\": " + detail::digits(gain, 6);
    }
    json += ", \"plans\": [";
    for (Plan const& plan : own.plans) {
      json += std::string{&plan == own.plans.data() ? "" : ","} +
              "\n      {\"strategy\": " + detail::json_quoted(strategy_type(plan)) +
              ", \"workers\": " + std::to_string(plan.workers) +
              ", \"devices_per_worker\": " + std::to_string(plan.worker.devices);
      if (plan.feasible()) {
        double const c = plan.time.seconds();
        json += ", \"T\": " + detail::digits(plan.time.step, 9) +
                ", \"S\": " + detail::digits(plan.time.steps_per_epoch, 9) +
                ", \"E\": " + detail::digits(plan.time.epochs, 9) +
                ", \"C\": " + detail::digits(c, 9) +
                ", \"speedup\": " + detail::digits(result.one_device / c, 9) +
                ", \"memory\": " + detail::digits(plan.step.memory, 12) +
                ", \"bound\": " + detail::json_quoted(plan.bound()) + "}";
      } else {
        json += ", \"problem\": " + detail::json_quoted(plan.problem) + "}";
      }
    }
    json += "]}";
  }
  std::vector<Plan> const& last = result.of.back().plans;
  bool const fits = !last.empty() && last.front().feasible();
  return json + "],\n  \"recommended\": " +
         (fits ? detail::json_quoted(strategy_type(last.front())) : "null") + "\n}\n";
}

}  // namespace tandem
