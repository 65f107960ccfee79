// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// place_ordered: a placement for the order in which ModelParallel<Placed<table>> runs the nodes.

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/place/chain_groups.hpp>
#include <tandem/plan/place/greedy.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/ordered_step.hpp>
#include <tandem/plan/place/placement.hpp>

namespace tandem {

namespace detail {

/// A change that gains less than this share of a step only makes the list of paths longer.
inline constexpr double least_gain = 5e-4;

/// How long settle() may go on.
class SettleLimit {
 public:
  /// So many ordered steps.
  explicit SettleLimit(long steps) : steps_{steps} {}
  /// Seconds from now on.
  explicit SettleLimit(double seconds)
      : end_{seconds < 1e6 ? std::chrono::steady_clock::now() +
                                 std::chrono::nanoseconds{static_cast<std::int64_t>(1e9 * seconds)}
                           : never} {}

  /// Whether one more step may be made.
  bool spend() {
    return --steps_ >= 0 && (end_ == never || std::chrono::steady_clock::now() < end_);
  }

 private:
  static constexpr auto never = std::chrono::steady_clock::time_point::max();

  long steps_ = std::numeric_limits<long>::max();
  std::chrono::steady_clock::time_point end_ = never;
};

/// Moves groups of a chain, then nodes, one at a time to where the ordered step is shortest, until
/// none gains by it or @p limit is met; where @p memory bounds it, only to devices that have some
/// left.
TANDEM_ONCE void settle(CostGraph const& graph, PlacedLinks const& links, std::vector<int>& device,
                        SettleLimit limit, PlacementTask const& memory = {});

}  // namespace detail

/// The device of each node, so that ordered_step() is short: @p start, or where nodes end earliest,
/// with chains and nodes moved one at a time while the step gets shorter by 0.05 % or more and
/// there is memory; whichever ends first. The same result every time; never slower than @p start.
/// Cost: some ten thousand ordered steps for 300 nodes on 2 devices, or @p seconds.
/// @param start    of place_graph(), say, which places for a list schedule
/// @param seconds  by the clock, after which the best so far is taken, which then depends on it
/// @throws ContractError  as ordered_step()
TANDEM_ONCE [[nodiscard]] std::vector<int> place_ordered(CostGraph const& graph,
                                                         PlacementTask const& task,
                                                         std::vector<int> start,
                                                         double seconds = HUGE_VAL);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void settle(CostGraph const& graph, PlacedLinks const& links, std::vector<int>& device,
                        SettleLimit limit, PlacementTask const& memory) {
  OrderedStep ordered{graph, links};
  double best = ordered.step(device);
  bool goes_on = true;
  auto const move = [&](std::vector<int> const& group, int which) {
    std::vector<int> moved = device;
    for (int to = 0; to < links.devices; ++to) {
      for (std::size_t n = 0; n < moved.size(); ++n) {
        moved[n] = group[n] == which ? to : moved[n];
      }
      if (moved == device) {
        continue;
      }
      if (!limit.spend()) {
        goes_on = false;
        return;
      }
      double const step = ordered.step(moved);
      if (step < best * (1 - least_gain) &&
          (memory.memory < 0 || fits_memory(graph, memory, moved))) {
        best = step;
        device = moved;
      }
    }
  };
  std::vector<int> alone(device.size());
  std::iota(alone.begin(), alone.end(), 0);
  std::vector<int> chains = ChainGroups{graph}.group;
  for (double before = 2 * best; goes_on && best < before;) {
    before = best;
    for (auto const* group : {&chains, &alone}) {
      for (int which = 0; goes_on && which <= group->back(); ++which) {
        move(*group, which);
      }
    }
  }
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::vector<int> place_ordered(CostGraph const& graph, PlacementTask const& task,
                                           std::vector<int> start, double seconds) {
  detail::check_placement_task(graph, task);
  detail::check_devices(graph, task, start);
  detail::PlacedLinks const links = detail::placed_links(task);
  std::vector<int> other = detail::place_greedy(graph, task);
  bool const other_fits = detail::fits_memory(graph, task, other);
  detail::SettleLimit const limit{seconds};
  detail::settle(graph, links, start, detail::SettleLimit{seconds / 2}, task);
  detail::settle(graph, links, other, limit, task);
  detail::OrderedStep ordered{graph, links};
  return other_fits && ordered.step(other) < ordered.step(start) ? other : start;
}

}  // namespace tandem

#endif
