// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepRun: whether messages and collectives of a whole step wait for each other forever.

#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/row_ends.hpp>
#include <tandem/schedule/table/stage_edges.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/time/message_clocks.hpp>
#include <tandem/schedule/time/timeline.hpp>
#include <tandem/schedule/verify/channels.hpp>
#include <tandem/schedule/verify/verdict.hpp>

namespace tandem::detail {

/// Runs the rows with a collective blocking until all its devices are there, as the strictest
/// transport does; so devices that meet two collectives in two orders wait forever.
///
/// A sum of losses, or of norms, is one of all devices, where its action stands. That of a part's
/// gradients is one of the devices that have a copy of it: where a device ends its stage, or
/// where it awaits its first bucket all parts, the last first. An average is one of the two devices
/// that have the two copies, where they update them; overlapped ones begin with the row, in one
/// order on all devices. Replicas run the same rows: they meet wherever one of them comes.
/// @pre the passes and messages pass verify(), the tail of each row TailOfRow
template <class Table>
class StepRun {
 public:
  constexpr StepRun(Table const& table, StageMapView const& map, StepRules const& rules,
                    bool reduces_early, int microbatches, int depth)
      : table_{table},
        map_{map},
        rules_{rules},
        reduces_early_{reduces_early},
        microbatches_{microbatches},
        depth_{depth},
        edges_{map},
        channels_{map, microbatches, depth, rules.chunks},
        device_{map.devices},
        last_{map.stages, -1},
        bucketed_{map.stages},
        group_{2 + 2 * std::int64_t{map.parts()}} {
    for (int d = 0; d < map.devices; ++d) {
      RowEnds const ends{row_of(table, d), map};
      for (int s = 0; s < map.stages; ++s) {
        last_[s] = map.device[s] == d ? ends.last(s) : last_[s];
      }
      rules.each_bucket(map, d, [this](int stage, int) { ++bucketed_[stage]; });
    }
  }

  constexpr Verdict run() {
    for (int s = 0; sums_copies() && s < map_.stages; ++s) {
      if (bucketed_[s] != bucketed_[part(s)]) {
        return {.flaw = Flaw::unsound_rules, .rank = map_.device[s]};
      }
    }
    for (bool progress = true; progress;) {
      progress = false;
      for (int d = 0; d < map_.devices; ++d) {
        progress = run_device(d) || progress;
      }
    }
    for (int d = 0; d < map_.devices; ++d) {
      if (device_[d].at < row_of(table_, d).size) {
        return stuck(d);
      }
    }
    return {};
  }

 private:
  /// Where a device is.
  struct Place {
    int at = 0;     // its next action
    int edge = -1;  // of that the next message, where moving
    bool moving = false;
    bool offered = false;  // at depth 0: sent, and not yet taken
    int met = 0;           // of that the collectives gone through
    bool waits = false;    // in the next one
  };

  // Collectives, as indices of group_: losses, norms, then gradients and averages of each part.
  static constexpr int losses = 0;
  static constexpr int norms = 1;
  constexpr int gradients(int part) const { return 2 + part; }
  constexpr int average(int part) const { return 2 + map_.parts() + part; }

  constexpr int part(int stage) const { return stage % map_.parts(); }

  // The device's stage of this part and the first such copy; -1 if there is none.
  constexpr int own_stage(int d, int part) const {
    for (int s = part; s < map_.stages; s += map_.parts()) {
      if (map_.device[s] == d) {
        return s;
      }
    }
    return -1;
  }

  constexpr bool in_group(int d, int collective) const {
    return collective < 2 || own_stage(d, (collective - 2) % map_.parts()) >= 0;
  }
  constexpr int size(int collective) const {
    int count = 0;
    for (int d = 0; d < map_.devices; ++d) {
      count += in_group(d, collective) ? 1 : 0;
    }
    return count;
  }

  constexpr bool sums_copies() const { return map_.copies > 1 && !rules_.keeps_two(); }

  // The k-th collective that the device begins with its action; -1 if there is none.
  constexpr int collective(int d, Action const& action, int at, int k) const {
    if (action.kind == ActionKind::begin_loss || action.kind == ActionKind::reduce_norm) {
      return k > 0 ? -1 : action.kind == ActionKind::begin_loss ? losses : norms;
    }
    if (action.kind == ActionKind::update) {
      bool const meets = rules_.keeps_two() && !rules_.averaging.overlapped && k == 0 &&
                         size(average(part(action.stage))) > 1;
      return meets ? average(part(action.stage)) : -1;
    }
    if (!sums_copies()) {
      return -1;
    }
    if (begins_gradients_early(map_, rules_, reduces_early_, d)) {
      bool const meets = is_compute(action.kind) && last_[action.stage] == at && k == 0 &&
                         bucketed_[action.stage] != 0;
      return meets ? gradients(part(action.stage)) : -1;
    }
    for (int p = map_.parts() - 1;
         action.kind == ActionKind::reduce_gradient && action.index == 0 && p >= 0; --p) {
      int const own = own_stage(d, p);
      if (own >= 0 && bucketed_[own] != 0 && k-- == 0) {
        return gradients(p);
      }
    }
    return -1;
  }

  constexpr bool run_device(int d) {
    ActionSpan const row = row_of(table_, d);
    Place& place = device_[d];
    bool progress = false;
    for (; place.at < row.size; ++place.at) {
      Action const& action = row.data[place.at];
      if (is_message(action.kind) ? !move(action, place, progress)
                                  : !meet(d, action, place, progress)) {
        break;
      }
      place.met = 0;
      progress = true;
    }
    return progress;
  }

  constexpr bool meet(int d, Action const& action, Place& place, bool& progress) {
    for (int c = collective(d, action, place.at, place.met); c >= 0;
         c = collective(d, action, place.at, place.met)) {
      if (!place.waits) {
        ++group_[c];
        progress = true;
      }
      place.waits = group_[c] < size(c);
      if (place.waits) {
        return false;
      }
      ++place.met;
    }
    return true;
  }

  static constexpr bool is_forward(ActionKind kind) {
    return kind == ActionKind::send_forward || kind == ActionKind::receive_forward;
  }

  constexpr bool move(Action const& action, Place& place, bool& progress) {
    bool const forward = is_forward(action.kind);
    bool const outwards = forward == is_send(action.kind);  // its edges lead to later stages
    if (!place.moving) {
      place.edge = (outwards ? edges_.crossing_out : edges_.crossing_in)[action.stage];
      place.moving = true;
    }
    for (; place.edge >= 0;
         place.edge = (outwards ? edges_.next_out : edges_.next_in)[place.edge]) {
      int const channel = channels_.of(place.edge, forward);
      if (!(is_send(action.kind) ? send(channel, place, progress) : receive(channel))) {
        return false;
      }
      progress = true;
    }
    place.moving = false;
    return true;
  }
  constexpr bool send(int channel, Place& place, bool& progress) {
    if (!place.offered) {
      if (channels_.full(channel)) {
        return false;
      }
      channels_.send(channel, place.edge);
      place.offered = depth_ == 0;
      progress = true;
    }
    place.offered = place.offered && !channels_.empty(channel);
    return !place.offered;
  }
  constexpr bool receive(int channel) {
    if (channels_.empty(channel)) {
      return false;
    }
    channels_.take(channel);
    return true;
  }

  /// What a device that waits is waiting for, in whose row.
  struct Wanted {
    int device;
    Action action;
  };

  constexpr Wanted wanted(int d) const {
    Place const& place = device_[d];
    Action const& action = row_of(table_, d).data[place.at];
    if (!is_message(action.kind)) {
      return wanted_of_group(d, collective(d, action, place.at, place.met));
    }
    bool const forward = is_forward(action.kind);
    bool const sends = is_send(action.kind);
    int const e = sends ? channels_.next(channels_.of(place.edge, forward)) : place.edge;
    StageEdge const edge = map_.edge[e];
    std::int16_t const stage = forward == sends ? edge.to : edge.from;
    int const index = map_.first_microbatch(edge.from, microbatches_) + channels_.taken(e, forward);
    ActionKind const kind =
        forward ? (sends ? ActionKind::receive_forward : ActionKind::send_forward)
                : (sends ? ActionKind::receive_backward : ActionKind::send_backward);
    return {map_.device[stage], {.kind = kind, .stage = stage, .index = index}};
  }

  // The first device of the group that is not there, and where it would be.
  constexpr Wanted wanted_of_group(int d, int wanted) const {
    for (int other = 0; other < map_.devices; ++other) {
      ActionSpan const row = row_of(table_, other);
      for (int i = device_[other].at; other != d && i < row.size; ++i) {
        bool const there = i == device_[other].at;
        for (int k = there ? device_[other].met + (device_[other].waits ? 1 : 0) : 0;; ++k) {
          int const c = collective(other, row.data[i], i, k);
          if (c == wanted) {
            return {other, row.data[i]};
          }
          if (c < 0) {
            break;
          }
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
    return {.flaw = Flaw::deadlock,
            .rank = d,
            .position = device_[d].at,
            .action = row_of(table_, d).data[device_[d].at],
            .other = other.action,
            .other_rank = other.device,
            .waiting = row_of(table_, other.device).data[device_[other.device].at],
            .depth = depth_};
  }

  Table const& table_;
  StageMapView map_;
  StepRules const& rules_;
  bool reduces_early_;
  int microbatches_;
  int depth_;
  StageEdges edges_;
  Channels channels_;
  Scratch<Place> device_;
  Scratch<int> last_;      // pass of each stage
  Scratch<int> bucketed_;  // buckets of each stage
  Scratch<int> group_;     // how many devices have come to each collective
};

}  // namespace tandem::detail
