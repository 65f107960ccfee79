// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// row_order(): whether the two copies of a model may be reduced, or updated, as they end.

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/complete_row.hpp>
#include <tandem/schedule/table/row_ends.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/verify/step_run.hpp>

namespace tandem {

namespace detail {

/// Whole rows, one behind the other.
class CompletedRows {
 public:
  template <class Table>
  constexpr CompletedRows(Table const& table, StageMapView const& map, StepRules const& rules,
                          RowOrder order)
      : devices_{map.devices}, begin_{map.devices + 1}, action_{count(table, map, rules, order)} {
    Action* next = action_.data();
    for (int d = 0; d < map.devices; ++d) {
      auto sink = [&next](Action const& action) { *next++ = action; };
      RowCompletion{row_of(table, d), map, rules, order, d, sink}.write();
    }
  }

  friend constexpr ActionSpan row_of(CompletedRows const& rows, int device) {
    return {rows.action_.data() + rows.begin_[device],
            rows.begin_[device + 1] - rows.begin_[device]};
  }
  friend constexpr int devices_of(CompletedRows const& rows) { return rows.devices_; }

 private:
  template <class Table>
  constexpr int count(Table const& table, StageMapView const& map, StepRules const& rules,
                      RowOrder order) {
    int all = 0;
    for (int d = 0; d < map.devices; ++d) {
      auto sink = [&all](Action const&) { ++all; };
      RowCompletion{row_of(table, d), map, rules, order, d, sink}.write();
      begin_[d + 1] = all;
    }
    return all;
  }

  int devices_;
  Scratch<int> begin_;
  Scratch<Action> action_;
};

/// Whether the rows, completed in this order, run even where a collective blocks.
template <class Table>
constexpr bool runs_in_order(Table const& table, StageMapView const& map,
                             Averaging const& averaging, RowOrder order) {
  StepRules const rules{.averaging = averaging};
  CompletedRows const rows{table, map, rules, order};
  return static_cast<bool>(
      StepRun<CompletedRows>{rows, map, order.reduces_early, map.copies, 1, 1}.run());
}

}  // namespace detail

/// Of two copies each may be reduced, or updated and exchanged, as it ends only if all devices end
/// later parts of the model before others, and if no device then waits forever for one that waits
/// for its message; else that is done when the rows end.
///
/// Cost: linear in the actions of all rows.
template <class Table>
constexpr RowOrder row_order(Table const& table, StageMapView const& map, StepRules const& rules) {
  if (map.copies == 1) {
    return {};
  }
  RowOrder order{.reduces_early = ends_from_last(table, map)};
  if (rules.keeps_two()) {
    order.updates_early =
        order.reduces_early && rules.replicas == 1 && !rules.ties && goes_forward_first(table);
    order.updates_early =
        order.updates_early && detail::runs_in_order(table, map, rules.averaging, order);
  } else {
    order.reduces_early =
        order.reduces_early && detail::runs_in_order(table, map, rules.averaging, order);
  }
  return order;
}

}  // namespace tandem
