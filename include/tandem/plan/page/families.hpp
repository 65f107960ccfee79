// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StrategyFamily: the plans of a search by the kind of their workers, so that a picture has a line
/// for each kind and not for each plan.

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/search/report.hpp>
#include <tandem/plan/search/search.hpp>
#include <tandem/schedule/orders/all.hpp>

namespace tandem {

/// Strategies of one kind and, for each number of devices where one of them can be, the fastest.
struct StrategyFamily {
  struct Best {
    int devices = 1;
    Plan const* plan = nullptr;
  };

  std::string_view name{};
  std::vector<Best> best{};  ///< by devices
};

namespace detail {

inline constexpr std::array<std::string_view, 12> family_names{
    "DataParallel",       "ModelParallel",   "ModelParallel, placed",
    "CrossModelParallel", "Pipeline",        "Pipeline, Checkpoint",
    "late gradients",     "TensorParallel",  "Pipeline, TensorParallel",
    "Pipeline, Chunks",   "SpatialParallel", "Pipeline, SpatialParallel"};

}  // namespace detail

/// The families that have a plan, in a fixed order. @p result outlives them.
TANDEM_ONCE [[nodiscard]] std::vector<StrategyFamily> strategy_families(SearchResult const& result);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string_view family_name(Plan const& plan) {
  StrategyValue const& worker = plan.worker;
  if (worker.replica_devices() == 1) {
    return family_names[0];
  }
  if (worker.asynchrony().on()) {
    return family_names[6];
  }
  if (worker.cut == CutKind::placed) {
    return family_names[2];
  }
  if (worker.rewrites()) {
    return family_names[worker.has_tiles()    ? worker.shares_all() ? 10 : 11
                        : worker.shares_all() ? 7
                        : worker.tensor > 1   ? 8
                                              : 9];
  }
  return worker.schedule == SequentialStages::name ? family_names[1]
         : worker.schedule == CrossModel::name     ? family_names[3]
                                                   : family_names[worker.repeats_stages() ? 5 : 4];
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::vector<StrategyFamily> strategy_families(SearchResult const& result) {
  std::vector<StrategyFamily> all;
  for (std::string_view const name : detail::family_names) {
    StrategyFamily family{.name = name};
    for (SearchResult::Devices const& own : result.of) {
      Plan const* best = nullptr;
      for (Plan const& plan : own.plans) {
        if (plan.feasible() && detail::family_name(plan) == name &&
            (best == nullptr || plan.time.seconds() < best->time.seconds())) {
          best = &plan;
        }
      }
      if (best != nullptr) {
        family.best.push_back({own.devices, best});
      }
    }
    if (!family.best.empty()) {
      all.push_back(std::move(family));
    }
  }
  return all;
}

}  // namespace tandem

#endif
