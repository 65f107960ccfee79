// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ImportedTable: rows of actions that a program brings, checked before any rank runs them.

#include <algorithm>
#include <string>

#include <tandem/core/error.hpp>
#include <tandem/strategy/action_table.hpp>
#include <tandem/strategy/lower_table.hpp>
#include <tandem/strategy/options.hpp>
#include <tandem/strategy/stage_map_view.hpp>
#include <tandem/strategy/verify.hpp>
#include <tandem/strategy/verify_message.hpp>

namespace tandem {

/// Rows with messages, and how many microbatches they are for; empty where there are none.
struct ImportedTable {
  ActionRows rows{};
  int microbatches = 0;
};

/// Lowers rows of passes, takes rows with messages as they are, and verifies both for the stages of
/// @p Program.
/// @throws ContractError  a table that cannot run, or does not fit the strategy; one sentence
template <class Program>
ImportedTable import_table(ActionRows const& rows) {
  ImportedTable table;
  if (rows.empty()) {
    return table;
  }
  StageMapView const map{Program::map};
  if (devices_of(rows) != map.devices) {
    throw ContractError{"TrainerOptions: .rows has " + std::to_string(rows.size()) +
                        " rows, but a replica of the strategy has " + std::to_string(map.devices) +
                        " devices; give a row for each"};
  }
  bool lowered = false;
  bool splits = false;
  for (auto const& row : rows) {
    for (Action const& action : row) {
      table.microbatches = std::max(table.microbatches, action.index + 1);
      splits = splits || action.kind == ActionKind::weight_gradient;
      lowered = lowered || (action.kind >= ActionKind::send_forward &&
                            action.kind <= ActionKind::receive_backward);
    }
  }
  if (splits && !Program::splits_backward) {
    throw ContractError{
        "TrainerOptions: .rows has input and weight gradients apart (I and W), which this strategy "
        "has not compiled; take Pipeline<ZeroBubbleH1, ...>, which runs any rows"};
  }
  table.rows = lowered ? rows : lower(rows, map);
  Verdict const verdict = verify(table.rows, map, std::max(table.microbatches, 1));
  if (!verdict) {
    throw ContractError{"TrainerOptions: .rows cannot run: " + to_string(verdict)};
  }
  Batching batching = Program::batching;
  if (batching.reproducible && batching.leaves == batching.microbatches &&
      (table.microbatches & (table.microbatches - 1)) != 0) {
    throw ContractError{
        "TrainerOptions: .rows has " + std::to_string(table.microbatches) +
        " microbatches, of which Reproducible<> makes as many leaves: take a power of two"};
  }
  if (batching.reproducible && batching.leaves != batching.microbatches &&
      table.microbatches % batching.leaves != 0) {
    throw ContractError{"TrainerOptions: .rows has " + std::to_string(table.microbatches) +
                        " microbatches, which cannot be dealt to " +
                        std::to_string(batching.leaves) + " leaves; take a multiple"};
  }
  return table;
}

}  // namespace tandem
