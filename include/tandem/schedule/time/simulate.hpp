// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// simulate: the timeline of an action table for given costs, in constants and at run time.
///
/// A device runs its row in order; an action begins when the one before it has ended and what it
/// needs is there. In a table without sends and receives each pass waits for the passes of the
/// neighbouring stages, and any number of messages may be on their way.

#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/row_order.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/simulation.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem {

namespace detail {

template <class Table>
constexpr bool reduces(Table const& table) {
  for (int d = 0; d < devices_of(table); ++d) {
    for (Action const& action : row_of(table, d)) {
      if (action.kind == ActionKind::reduce_gradient) {
        return true;
      }
    }
  }
  return false;
}

template <class Table, class Result>
constexpr void simulate_into(Result& result, Table const& table, StageMapView const& map,
                             ActionCosts const& costs, int depth) {
  expects(is_sound(map) && map.devices == devices_of(table) && depth >= 0,
          "simulate(table, map, costs, depth): give a map with as many devices as the table has "
          "rows, in which every edge leads from a lower stage to a higher one, and a depth of 0 "
          "or more");
  bool const early =
      map.copies == 1 || !reduces(table) || row_order(without_tail(table), map, {}).reduces_early;
  Simulation{table, map, costs, depth, early}.run(result);
}

}  // namespace detail

/// The timeline of @p table on the devices of @p map.
/// @param depth  messages of a link and direction that may be on their way before a send waits for
///               one to be taken; at 0 a send ends when its own is
/// @pre    verify(table, map, ...) finds nothing wrong; else the timeline may be unfinished
/// @throws ContractError  the map is not one, or not of this table
template <int Devices, int Length>
constexpr Timeline<Devices, Length> simulate(ActionTable<Devices, Length> const& table,
                                             StageMapView const& map, ActionCosts const& costs = {},
                                             int depth = 1) {
  Timeline<Devices, Length> result;
  detail::simulate_into(result, table, map, costs, depth);
  return result;
}

/// As above, at run time.
TANDEM_ONCE TimelineRows simulate(ActionRows const& table, StageMapView const& map,
                                  ActionCosts const& costs = {}, int depth = 1);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE TimelineRows simulate(ActionRows const& table, StageMapView const& map,
                                  ActionCosts const& costs, int depth) {
  TimelineRows result;
  result.device.resize(table.size());
  for (std::vector<Action> const& row : table) {
    result.action.emplace_back(row.size());
  }
  detail::simulate_into(result, table, map, costs, depth);
  return result;
}

}  // namespace tandem

#endif
