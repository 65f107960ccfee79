// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How many microbatches a stage must hold at once, which is what its activations cost.

#include <algorithm>

#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem {

/// Most microbatches of a stage that are live at once: from RECV_F (F where nothing is received) to
/// the end of B (W where backward is split), in the order of its device's row.
///
/// They are consecutive, so microbatch i may live in slot i modulo this number.
/// @pre the table passes verify()
template <class Table>
constexpr int live_microbatches(Table const& table, StageMapView const& map, int stage) {
  int received = 0;
  int forwarded = 0;
  int retired = 0;
  int most = 0;
  for (Action const& action : row_of(table, map.device[stage])) {
    if (action.stage != stage) {
      continue;
    }
    received += action.kind == ActionKind::receive_forward ? 1 : 0;
    forwarded += action.kind == ActionKind::forward ? 1 : 0;
    most = std::max(most, std::max(received, forwarded) - retired);
    retired +=
        action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient ? 1 : 0;
  }
  return most;
}

/// Most microbatches of a stage that are between I and W at once; 0 if backward is not split.
/// @pre the table passes verify()
template <class Table>
constexpr int deferred_microbatches(Table const& table, StageMapView const& map, int stage) {
  int deferred = 0;
  int most = 0;
  for (Action const& action : row_of(table, map.device[stage])) {
    if (action.stage == stage && action.kind == ActionKind::input_gradient) {
      most = std::max(most, ++deferred);
    } else if (action.stage == stage && action.kind == ActionKind::weight_gradient) {
      --deferred;
    }
  }
  return most;
}

}  // namespace tandem
