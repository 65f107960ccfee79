// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// complete(): the whole row of every device; see complete_row.hpp.

#include <cstddef>

#include <tandem/core/config.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/complete_row.hpp>
#include <tandem/schedule/table/row_order.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>

namespace tandem {

/// A training step on @p table, whole: each bucket is reduced once, then each device has one
/// update, behind the sums of losses and norm. A device that has the whole model begins to sum the
/// losses behind its last forward pass; others when their rows end, since they would wait for
/// messages.
///
/// Where @p rules keep two models each stage has an update of its own, as soon as it can, behind
/// which the exchange of its weights begins; X awaits it at the end, or, overlapped, before U.
///
/// Cost: linear in the actions.
/// @param table  lowered, and passes verify()
TANDEM_ONCE ActionRows complete(ActionRows const& table, StageMapView const& map,
                                StepRules const& rules = {});

/// The longest row of complete(table, map, rules).
template <class Table>
constexpr int completed_length(Table const& table, StageMapView const& map,
                               StepRules const& rules = {}) {
  int longest = 0;
  RowOrder const order = row_order(table, map, rules);
  for (int d = 0; d < devices_of(table); ++d) {
    int length = 0;
    auto sink = [&length](Action const&) { ++length; };
    complete_row(table, map, rules, order, d, sink);
    longest = length > longest ? length : longest;
  }
  return longest;
}

/// The same as a constant.
/// @tparam Completed  completed_length() of the same arguments, or more
template <int Completed, int Devices, int Length>
constexpr auto complete(ActionTable<Devices, Length> const& table, StageMapView const& map,
                        StepRules const& rules = {}) {
  ActionTable<Devices, Completed> rows;
  RowOrder const order = row_order(table, map, rules);
  for (int d = 0; d < Devices; ++d) {
    auto sink = [&rows, d](Action const& action) { rows.add(d, action); };
    complete_row(table, map, rules, order, d, sink);
  }
  return rows;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ActionRows complete(ActionRows const& table, StageMapView const& map,
                                StepRules const& rules) {
  ActionRows rows(table.size());
  RowOrder const order = row_order(table, map, rules);
  for (int d = 0; d < devices_of(table); ++d) {
    auto sink = [&row = rows[static_cast<std::size_t>(d)]](Action const& action) {
      row.push_back(action);
    };
    complete_row(table, map, rules, order, d, sink);
  }
  return rows;
}

}  // namespace tandem

#endif
