// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepPicture: what each rank of a strategy holds, and what it does when in a step; strategy_svg()
/// draws it.
///
/// Shows the rows that ranks run, with what stands around the passes: reductions, updates and
/// exchanges. Messages take no time here, other than in simulate().

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/schedule/picture/picture_bar.hpp>
#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/time/clocks.hpp>
#include <tandem/schedule/time/simulation.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem {

/// A part of the model that a rank has.
struct HeldPart {
  int part = 0;
  int copy = 0;
  int versions = 1;  ///< of its weights
};

struct RankPicture {
  std::vector<HeldPart> holds{};
  std::vector<PictureBar> bars{};
};

struct StepPicture {
  int devices = 1;  ///< of one replica; rank r is device r % devices of replica r / devices
  int copies = 1;
  int parts = 1;
  bool asynchronous = false;
  std::vector<RankPicture> rank{};
};

/// What a step is, but for its passes.
struct PictureRules {
  int replicas = 1;
  Averaging averaging{};
  Asynchrony asynchrony{};
};

/// The picture of the step that complete() makes of the passes @p rows on the devices of @p map; of
/// an asynchronous pipeline, of as many steps as the rows have, updates included.
TANDEM_ONCE StepPicture step_picture(ActionRows const& rows, StageMapView const& map,
                                     PictureRules const& rules, PictureCosts costs = {});

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// What each device does with the rows on the clock of simulate(), where there is a place for each
/// message, which takes no time: its passes and updates, and beside them the sums of gradients and
/// averages that it awaits.
TANDEM_ONCE std::vector<std::vector<PictureBar>> bars_of(ActionRows const& rows,
                                                         StageMapView const& map,
                                                         PictureCosts const& costs,
                                                         bool reduces_early, int replicas) {
  ActionCosts const passes{.forward = costs.forward,
                           .input_gradient = costs.half_backward,
                           .weight_gradient = costs.half_backward,
                           .backward = costs.backward,
                           .update = costs.update,
                           .exchange = 0};
  TimelineRows timeline;
  timeline.device.resize(rows.size());
  for (std::vector<Action> const& row : rows) {
    timeline.action.emplace_back(row.size());
  }
  CollectiveCosts const collectives{.among = costs.message,
                                    .alone = replicas > 1 ? costs.message : 0,
                                    .lead = costs.half_backward / 2};
  Simulation simulation{rows,          map,        passes, std::numeric_limits<int>::max(),
                        reduces_early, collectives};
  simulation.run(timeline);
  std::vector<std::vector<PictureBar>> bars(rows.size());
  for (std::size_t d = 0; d < rows.size(); ++d) {
    StepEffects const& effects = simulation.effects();
    for (int i = 0; i < effects.size(static_cast<int>(d)); ++i) {
      Effect const& effect = effects.at(static_cast<int>(d), i);
      auto const place = static_cast<std::size_t>(effect.place);
      if (effect.kind == EffectKind::work) {
        bars[d].push_back({rows[d][place], timeline.action[d][effect.place]});
      } else if (effect.kind == EffectKind::await && !StepEffects::is_of_all(effect.meets)) {
        Interval const time = simulation.time_of(effect.meets);
        if (time.end > time.begin) {
          bars[d].push_back({rows[d][place], time, true});
        }
      }
    }
  }
  return bars;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE StepPicture step_picture(ActionRows const& rows, StageMapView const& map,
                                     PictureRules const& rules, PictureCosts costs) {
  if (rules.asynchrony.on() && rules.asynchrony.weights == WeightRule::replayed) {
    costs.backward += costs.forward;
  }
  StepRules const step{.replicas = rules.replicas, .averaging = rules.averaging};
  bool const as_it_is = rules.asynchrony.on() || detail::has_messages(rows);
  ActionRows const lowered = as_it_is ? rows : lower(rows, map);
  RowOrder const order = rules.asynchrony.on() ? RowOrder{} : row_order(lowered, map, step);
  ActionRows const whole = rules.asynchrony.on() ? rows : complete(lowered, map, step);
  std::vector<std::vector<PictureBar>> const device =
      detail::bars_of(whole, map, costs, order.reduces_early, rules.replicas);
  StepPicture picture{.devices = map.devices,
                      .copies = map.copies,
                      .parts = map.parts(),
                      .asynchronous = rules.asynchrony.on()};
  int microbatches = 0;
  for (std::vector<PictureBar> const& bars : device) {
    for (PictureBar const& bar : bars) {
      microbatches = std::max(microbatches, is_compute(bar.action.kind) ? bar.action.index + 1 : 0);
    }
  }
  for (int replica = 0; replica < rules.replicas; ++replica) {
    for (int d = 0; d < map.devices; ++d) {
      RankPicture rank{.bars = device[static_cast<std::size_t>(d)]};
      for (PictureBar& bar : rank.bars) {
        bar.action.index += is_compute(bar.action.kind) ? replica * microbatches : 0;
      }
      for (int s = 0; s < map.stages; ++s) {
        if (map.device[s] == d) {
          int const versions =
              rules.asynchrony.on() ? rules.asynchrony.versions(s % map.parts()) : 1;
          rank.holds.push_back({s % map.parts(), s / map.parts(), versions});
        }
      }
      picture.rank.push_back(std::move(rank));
    }
  }
  return picture;
}

}  // namespace tandem

#endif
