// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// schedule_summary: in words what a schedule costs, in time and in activations.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_edges.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/timeline_text.hpp>

namespace tandem {

namespace detail {

/// live_microbatches() of each stage, in one pass through the rows.
template <class Table>
std::vector<int> live_of_stages(Table const& table, StageMapView const& map) {
  struct Counts {
    int received = 0;
    int forwarded = 0;
    int ended = 0;
    int retired = 0;
  };
  StageEdges const edges{map};
  std::vector<Counts> count(static_cast<std::size_t>(map.stages));
  std::vector<int> most(count.size());
  for (int d = 0; d < devices_of(table); ++d) {
    for (Action const& action : row_of(table, d)) {
      if (action.stage < 0 || action.stage >= map.stages) {
        continue;
      }
      auto const s = static_cast<std::size_t>(action.stage);
      count[s].received += action.kind == ActionKind::receive_forward ? 1 : 0;
      count[s].forwarded += action.kind == ActionKind::forward ? 1 : 0;
      most[s] =
          std::max(most[s], std::max(count[s].received, count[s].forwarded) - count[s].retired);
      if (action.kind != ActionKind::backward && action.kind != ActionKind::weight_gradient) {
        continue;
      }
      ++count[s].ended;
      auto const retire = [&](int stage) {
        Counts& own = count[static_cast<std::size_t>(stage)];
        own.retired = own.ended;
        for (int e = edges.local_out[stage]; e >= 0; e = edges.next_out[e]) {
          own.retired =
              std::min(own.retired, count[static_cast<std::size_t>(map.edge[e].to)].ended);
        }
      };
      retire(action.stage);
      for (int e = edges.local_in[action.stage]; e >= 0; e = edges.next_in[e]) {
        retire(map.edge[e].from);
      }
    }
  }
  return most;
}

}  // namespace detail

/// A line a stage: "stage 2, copy 1 on rank 1: 3 microbatches live at most"; of chunked() tables "6
/// chunks of time live at most".
/// @param chunks  of each microbatch
/// @pre the table passes verify()
template <class Table>
std::string live_text(Table const& table, StageMapView const& map, int chunks = 1) {
  std::string text;
  std::vector<int> const all = detail::live_of_stages(table, map);
  for (int s = 0; s < map.stages; ++s) {
    int const live = all[static_cast<std::size_t>(s)];
    text += "stage " + std::to_string(s) +
            (map.copies > 1 ? ", copy " + std::to_string(s / map.parts()) + " of part " +
                                  std::to_string(s % map.parts()) + ","
                            : std::string{}) +
            " on rank " + std::to_string(map.device[s]) + ": " + std::to_string(live) +
            (chunks > 1  ? live == 1 ? " chunk of time" : " chunks of time"
             : live == 1 ? " microbatch"
                         : " microbatches") +
            " live at most\n";
  }
  return text;
}

/// A line a stage: "stage 0: a gradient is 2 microbatches late, 3 versions of its weights"; nothing
/// if synchronous.
TANDEM_ONCE std::string staleness_text(Asynchrony const& asynchrony);

/// The makespan, the idle time of each rank, and the live microbatches of each stage.
/// @param timeline  what simulate() made of @p table, which passes verify()
/// @param chunks    of each microbatch, if the table is chunked()
template <class Table, class Result>
std::string schedule_summary(Table const& table, StageMapView const& map, Result const& timeline,
                             std::string const& name, int chunks = 1) {
  int const ranks = devices_of(table);
  std::string text = name + "\n" + bubble_text(timeline, ranks) + "\n";
  for (int d = 0; d < ranks; ++d) {
    text += "rank " + std::to_string(d) + ": busy " + std::to_string(timeline.device[d].busy) +
            ", idle " + std::to_string(timeline.device[d].idle_in_step) +
            " from 0 to makespan, of that " +
            std::to_string(timeline.device[d].idle_between_actions) +
            " between its first and its last pass\n";
  }
  return text + live_text(table, map, chunks);
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string staleness_text(Asynchrony const& asynchrony) {
  std::string text;
  for (int s = 0; s < asynchrony.devices; ++s) {
    int const delay = asynchrony.delay(s);
    int const versions = asynchrony.versions(s);
    text += "stage " + std::to_string(s) + ": a gradient is " + std::to_string(delay) +
            (delay == 1 ? " microbatch" : " microbatches") + " late, " + std::to_string(versions) +
            (versions == 1 ? " version" : " versions") + " of its weights\n";
  }
  return text;
}

}  // namespace tandem

#endif
