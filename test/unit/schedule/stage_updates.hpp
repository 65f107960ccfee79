// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Synchronous tables with U of each stage and no sums, as one may write them by hand.

#include <algorithm>

#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace stage_updates {

using namespace tandem;

/// @p table with U of each stage directly behind its last pass. Where @p averaging keeps two
/// models, the X of all stages of a device stand at the end of its row, or if overlapped before its
/// first U; both in ascending order of parts, so that two devices exchange them in one order.
/// @pre the table passes verify(), and has no updates
inline ActionRows with_updates(ActionRows const& table, StageMapView const& map,
                               Averaging const& averaging = {}) {
  ActionRows rows(table.size());
  for (std::size_t d = 0; d < table.size(); ++d) {
    std::vector<Action> averages;
    for (int part = 0; part < map.parts() && averaging.keeps_two(); ++part) {
      for (int s = part; s < map.stages; s += map.parts()) {
        if (map.device[s] == static_cast<int>(d)) {
          averages.push_back({ActionKind::exchange, 0, static_cast<std::int16_t>(s), 0});
        }
      }
    }
    auto const average = [&] {
      rows[d].insert(rows[d].end(), averages.begin(), averages.end());
      averages.clear();
    };
    for (auto action = table[d].begin(); action != table[d].end(); ++action) {
      rows[d].push_back(*action);
      bool const last = std::none_of(action + 1, table[d].end(), [&](Action const& later) {
        return later.stage == action->stage;
      });
      if (last) {
        if (averaging.overlapped) {
          average();
        }
        rows[d].push_back({ActionKind::update, 0, action->stage, 0});
      }
    }
    average();
  }
  return rows;
}

}  // namespace stage_updates
