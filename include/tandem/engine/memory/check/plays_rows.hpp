// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// plays_rows, plays_rounds: what debug builds ask of every rank that is made, whether its memory
/// is right for its rows of actions.

#include <cstddef>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/engine/memory/check/memory_check.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/schedule/table/action_table.hpp>

namespace tandem {

/// One row, with samples in all microbatches and in every other one.
/// @param table_of  table_of(m): the number of microbatch m's table
/// @return true
/// @throws ContractError  the first fault
template <class T, class P, class TableOf>
TANDEM_COLD bool plays_row(MemoryCheck<T, P>& check, std::vector<Action> const& row, bool training,
                           TableOf const& table_of) {
  for (int const stride : {1, 2}) {
    if (std::string const fault = check.play(row, training, table_of, stride); !fault.empty()) {
      throw ContractError{fault};
    }
  }
  return true;
}

/// A device's rows of training and of evaluation.
template <class T, class P>
bool plays_rows(MemoryCheck<T, P> check, RankPlan const& plan) {
  auto const same = [](int m) { return m; };
  return plays_row(check, plan.training, true, same) && plays_row(check, plan.forward, false, same);
}

/// Of a device of an asynchronous pipeline: some rounds, and an evaluation, all of which has one
/// table.
template <class Program, class T, class P>
TANDEM_COLD bool plays_rounds(MemoryCheck<T, P> check) {
  std::vector<Action> const row =
      rows_of(Program::Program::table)[static_cast<std::size_t>(Program::device)];
  std::vector<Action> forward;
  for (Action const& action : row) {
    if (action.kind == ActionKind::forward || action.kind == ActionKind::send_forward ||
        action.kind == ActionKind::receive_forward) {
      forward.push_back(action);
    }
  }
  return plays_row(check, row, true, [](int g) { return g % Program::places.tables(); }) &&
         plays_row(check, forward, false, [](int) { return 0; });
}

}  // namespace tandem
