// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// verify() of a whole step, as complete() writes it and ranks run it: passes, messages, and the
/// tail of reductions, updates and exchanges.

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/verify/step_run.hpp>
#include <tandem/schedule/verify/tail.hpp>
#include <tandem/schedule/verify/verdict.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace tandem {

/// The table without the tails of its rows: passes and messages.
template <int Devices, int Length>
constexpr auto without_tail(ActionTable<Devices, Length> const& table) {
  ActionTable<Devices, Length> rows;
  for (int d = 0; d < Devices; ++d) {
    for (Action const& action : row_of(table, d)) {
      if (!detail::is_tail(action.kind)) {
        rows.add(d, action);
      }
    }
  }
  return rows;
}
TANDEM_ONCE ActionRows without_tail(ActionRows const& table);

namespace detail {

/// Where in a row with its tail the i-th action of those without it stands; the end behind the
/// last.
constexpr int position_with_tail(ActionSpan row, int i) {
  int at = 0;
  for (; at < row.size && (is_tail(row.data[at].kind) || i-- > 0); ++at) {
  }
  return at;
}

}  // namespace detail

/// verify() of a whole step: besides, whether each bucket of gradients is reduced once, behind the
/// passes that make it and before its update; losses and norms are summed once, before they are
/// read; each device, or of two models each stage, has one update; two models are exchanged once,
/// behind the update or, if overlapped, before it; and whether no device waits forever when each
/// collective blocks until all devices of its group are there.
///
/// Cost: about linear in the actions, and in the buckets squared.
/// @param table  complete(): passes, messages and the tail
/// @param rules  of the step; by their buckets, if they give any
/// @throws ContractError  microbatches < 1, depth < 0 or rules.replicas < 1
template <class Table>
constexpr Verdict verify(Table const& table, StageMapView const& map, int microbatches,
                         StepRules const& rules, int depth = 1) {
  expects(rules.replicas >= 1, "verify(table, map, microbatches, rules): give 1 replica or more");
  auto const passes = without_tail(table);
  Verdict verdict = verify(passes, map, microbatches, depth, rules.chunks);
  if (!verdict) {
    bool const placed = verdict.rank < devices_of(table);
    verdict.position =
        placed ? detail::position_with_tail(row_of(table, verdict.rank), verdict.position) : 0;
    return verdict;
  }
  if (rules.keeps_two() && map.copies != 2) {
    return {.flaw = Flaw::uneven_copies, .first = microbatches, .count = 2};
  }
  bool const reduces_early = row_order(passes, map, rules).reduces_early;
  for (int d = 0; d < map.devices && verdict; ++d) {
    bool const early = begins_gradients_early(map, rules, reduces_early, d);
    detail::TailOfRow row{row_of(table, d), map, rules, d, early};
    if (!row.knows_buckets()) {
      return {.flaw = Flaw::unsound_rules, .rank = d};
    }
    verdict = row.judge();
  }
  return verdict
             ? detail::StepRun<Table>{table, map, rules, reduces_early, microbatches * rules.chunks,
                                      depth}
                   .run()
             : verdict;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ActionRows without_tail(ActionRows const& table) {
  ActionRows rows(table.size());
  for (std::size_t d = 0; d < table.size(); ++d) {
    for (Action const& action : table[d]) {
      if (!detail::is_tail(action.kind)) {
        rows[d].push_back(action);
      }
    }
  }
  return rows;
}

}  // namespace tandem

#endif
