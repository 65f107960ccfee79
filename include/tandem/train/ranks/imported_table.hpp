// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ImportedTable: rows of actions that a program brings, checked before any rank runs them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/verify/sentence.hpp>
#include <tandem/schedule/verify/verify.hpp>
#include <tandem/strategy/batch/options.hpp>

namespace tandem {

/// Rows with messages, and how many microbatches they are for; empty where there are none.
struct ImportedTable {
  ActionRows rows{};
  int microbatches = 0;
};

namespace detail {

/// Where a replica is one device: gradient accumulation, and nothing to verify.
/// @throws ContractError  a table that cannot run, or does not fit the strategy; one sentence
TANDEM_ONCE TANDEM_COLD ImportedTable import_passes(ActionRows const& rows,
                                                    Batching const& batching);

/// The table where a replica has several devices: rows of passes are lowered, rows with messages
/// are taken as they are, and both are verified. Of what verify() passes, complete() makes a step
/// that it passes too, so that only the passes and messages are looked at.
/// @throws ContractError  likewise
TANDEM_ONCE TANDEM_COLD ImportedTable import_rows(ActionRows const& rows, StageMapView const& map,
                                                  Batching const& batching, bool splits_backward);

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE TANDEM_COLD void check_leaves(Batching const& batching, int microbatches) {
  if (batching.reproducible && batching.leaves == batching.microbatches &&
      (microbatches & (microbatches - 1)) != 0) {
    throw ContractError{
        "TrainerOptions: .rows has " + std::to_string(microbatches) +
        " microbatches, of which Reproducible<> makes as many leaves: take a power of two"};
  }
  if (batching.reproducible && batching.leaves != batching.microbatches &&
      microbatches % batching.leaves != 0) {
    throw ContractError{"TrainerOptions: .rows has " + std::to_string(microbatches) +
                        " microbatches, which cannot be dealt to " +
                        std::to_string(batching.leaves) + " leaves; take a multiple"};
  }
}

TANDEM_ONCE ImportedTable import_passes(ActionRows const& rows, Batching const& batching) {
  std::size_t const passes = rows.front().size();
  bool fits = rows.size() == 1 && passes > 0 && passes % 2 == 0;
  for (std::size_t i = 0; fits && i < passes; ++i) {
    ActionKind const kind = i % 2 == 0 ? ActionKind::forward : ActionKind::backward;
    fits = rows.front()[i] == Action{.kind = kind, .index = static_cast<int>(i / 2)};
  }
  if (!fits) {
    throw ContractError{
        "TrainerOptions: .rows of a strategy that does not cut the network is one row, 0F0 0B0 0F1 "
        "0B1 and so on, for as many microbatches as wanted"};
  }
  check_leaves(batching, static_cast<int>(passes / 2));
  return {.rows = rows, .microbatches = static_cast<int>(passes / 2)};
}

/// The gradients that stages send have one memory each, for all microbatches.
TANDEM_ONCE TANDEM_COLD void check_sends(std::vector<Action> const& row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (std::size_t before = 0; row[i].kind == ActionKind::send_backward && before < i; ++before) {
      Action const pass = row[before];
      if (pass.stage == row[i].stage && pass.index > row[i].index &&
          (pass.kind == ActionKind::backward || pass.kind == ActionKind::input_gradient)) {
        throw ContractError{"TrainerOptions: .rows has " + to_string(row[i]) + " behind " +
                            to_string(pass) +
                            ", which computes the next gradient where that one is sent from; put "
                            "it before that"};
      }
    }
  }
}

TANDEM_ONCE ImportedTable import_rows(ActionRows const& rows, StageMapView const& map,
                                      Batching const& batching, bool splits_backward) {
  ImportedTable table;
  if (devices_of(rows) != map.devices) {
    throw ContractError{"TrainerOptions: .rows has " + std::to_string(rows.size()) +
                        " rows, but a replica of the strategy has " + std::to_string(map.devices) +
                        " devices; give a row for each"};
  }
  bool lowered = false;
  bool splits = false;
  std::int64_t actions = 0;
  int last = -1;
  for (auto const& row : rows) {
    actions += static_cast<std::int64_t>(row.size());
    for (Action const& action : row) {
      last = std::max(last, action.index);
      splits = splits || action.kind == ActionKind::weight_gradient;
      lowered = lowered || (action.kind >= ActionKind::send_forward &&
                            action.kind <= ActionKind::receive_backward);
    }
  }
  if (last >= actions) {  // each microbatch has an action or more
    throw ContractError{"TrainerOptions: .rows has a microbatch " + std::to_string(last) +
                        ", but only " + std::to_string(actions) +
                        " actions; number microbatches from 0 on"};
  }
  table.microbatches = last + 1;
  if (splits && !splits_backward) {
    throw ContractError{
        "TrainerOptions: .rows has input and weight gradients apart (I and W), which this strategy "
        "has not compiled; take Pipeline<ZeroBubbleH1, ...>, which runs any rows"};
  }
  if (lowered && batching.chunks > 1) {
    throw ContractError{
        "TrainerOptions: .rows has messages, of whole microbatches, but the strategy has Chunks; "
        "give its passes alone"};
  }
  table.rows = lowered ? rows : lower(chunked(rows, batching.chunks), map);
  Verdict const verdict =
      verify(table.rows, map, std::max(table.microbatches, 1), 1, batching.chunks);
  if (!verdict) {
    throw ContractError{"TrainerOptions: .rows cannot run: " + to_string(verdict)};
  }
  for (auto const& row : table.rows) {
    check_sends(row);
  }
  check_leaves(batching, table.microbatches);
  return table;
}

}  // namespace tandem::detail

#endif
