// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepRun: whether messages and collectives of a whole step wait for each other forever.

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/effects.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/verify/channels.hpp>
#include <tandem/schedule/verify/verdict.hpp>

namespace tandem::detail {

/// Runs the effects of all rows with a collective blocking until all its devices are there, as the
/// strictest transport does; so devices that meet two collectives in two orders wait forever.
/// @pre the passes and messages pass verify(), the tail of each row TailOfRow
template <class Table>
class StepRun {
 public:
  constexpr StepRun(Table const& table, StageMapView const& map, bool reduces_early,
                    int microbatches, int chunks, int depth)
      : table_{table},
        map_{map},
        microbatches_{microbatches * chunks},
        depth_{depth},
        effects_{table, map, reduces_early},
        channels_{map, microbatches_, depth, chunks},
        device_{map.devices},
        came_{effects_.collectives()} {}

  constexpr Verdict run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (int d = 0; d < map_.devices; ++d) {
        progress = run_device(d) || progress;
      }
    }
    for (int d = 0; d < map_.devices; ++d) {
      if (device_[d].at < effects_.size(d)) {
        return stuck(d);
      }
    }
    return {};
  }

 private:
  /// Where a device is.
  struct Place {
    int at = 0;          // its next effect
    bool there = false;  // a message offered, at depth 0, or a collective come to, and not yet done
  };

  constexpr bool run_device(int d) {
    Place& place = device_[d];
    bool progress = false;
    for (; place.at < effects_.size(d) && run(effects_.at(d, place.at), place, progress);
         ++place.at) {
      place.there = false;
      progress = true;
    }
    return progress;
  }

  // Whether the effect is over.
  constexpr bool run(Effect const& effect, Place& place, bool& progress) {
    switch (effect.kind) {
      case EffectKind::send:
        if (!place.there) {
          if (channels_.full(effect.meets)) {
            return false;
          }
          channels_.send(effect.meets, effect.edge);
          place.there = depth_ == 0;
          progress = true;
        }
        return !place.there || channels_.empty(effect.meets);
      case EffectKind::receive:
        if (channels_.empty(effect.meets)) {
          return false;
        }
        channels_.take(effect.meets);
        return true;
      case EffectKind::begin:
        if (!place.there) {
          ++came_[effect.meets];
          place.there = progress = true;
        }
        return came_[effect.meets] == effects_.members(effect.meets);
      default:
        return true;
    }
  }

  constexpr Action const& action(int d, Effect const& effect) const {
    return row_of(table_, d).data[effect.place];
  }

  /// What a device that waits is waiting for, in whose row.
  struct Wanted {
    int device;
    Action action;
  };

  constexpr Wanted wanted(int d) const {
    Effect const& effect = effects_.at(d, device_[d].at);
    if (effect.kind == EffectKind::begin) {
      return wanted_of_group(d, effect.meets);
    }
    bool const forward = effect.meets % 2 == 0;
    bool const sends = effect.kind == EffectKind::send;
    int const e = sends ? channels_.next(effect.meets) : effect.edge;
    StageEdge const edge = map_.edge[e];
    std::int16_t const stage = forward == sends ? edge.to : edge.from;
    int const index = map_.first_microbatch(edge.from, microbatches_) + channels_.taken(e, forward);
    ActionKind const kind =
        forward ? (sends ? ActionKind::receive_forward : ActionKind::send_forward)
                : (sends ? ActionKind::receive_backward : ActionKind::send_backward);
    return {map_.device[stage], {.kind = kind, .stage = stage, .index = index}};
  }

  // The first device of the group that is not there, and where it would be.
  constexpr Wanted wanted_of_group(int d, int collective) const {
    for (int other = 0; other < map_.devices; ++other) {
      Place const& place = device_[other];
      for (int i = place.at + (place.there ? 1 : 0); i < effects_.size(other); ++i) {
        Effect const& effect = effects_.at(other, i);
        if (effect.kind == EffectKind::begin && effect.meets == collective) {
          return {other, action(other, effect)};
        }
      }
    }
    return {d, {}};
  }

  constexpr Verdict stuck(int d) const {
    for (int i = 0; i < map_.devices; ++i) {  // each waits for another: on to those in a circle
      d = wanted(d).device;
    }
    Wanted const other = wanted(d);
    Effect const& here = effects_.at(d, device_[d].at);
    return {.flaw = Flaw::deadlock,
            .rank = d,
            .position = here.place,
            .action = action(d, here),
            .other = other.action,
            .other_rank = other.device,
            .waiting = action(other.device, effects_.at(other.device, device_[other.device].at)),
            .depth = depth_};
  }

  Table const& table_;
  StageMapView map_;
  int microbatches_;
  int depth_;
  StepEffects effects_;
  Channels channels_;
  Scratch<Place> device_;
  Scratch<int> came_;  // devices, to each collective
};

}  // namespace tandem::detail
