// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PassVerification: the rules of verify() for a device's passes, which wait for nothing: what a
/// pass needs was done before in its own row, or the row is wrong.

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_edges.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/verify/verdict.hpp>

namespace tandem::detail {

template <class Table>
class PassVerification {
 protected:
  constexpr PassVerification(Table const& table, StageMapView const& map, int microbatches,
                             int depth)
      : table_{table},
        map_{map},
        share_{microbatches / map.copies},
        depth_{depth},
        edges_{map},
        memory_{7 * map.stages + map.devices},
        forwarded_{memory_.data()},
        backed_{forwarded_ + map.stages},
        retired_{backed_ + map.stages},
        moved_{retired_ + map.stages},
        position_{moved_ + 4 * map.stages} {
    for (int s = 0; s < map.stages; ++s) {
      int const first = first_microbatch(s);
      forwarded_[s] = backed_[s] = retired_[s] = first;
      for (int k = 0; k < 4; ++k) {
        moved_[4 * s + k] = first;
      }
    }
  }

  constexpr int first_microbatch(int stage) const {
    return map_.copies == 1 ? 0 : stage / map_.parts() * share_;
  }

  enum class Step { done, waiting, failed };

  constexpr Step fail(Flaw flaw, int device, Action action, Action other = {.index = -1}) {
    verdict_.flaw = flaw;
    verdict_.rank = device;
    verdict_.position = position_[device];
    verdict_.action = action;
    verdict_.other = other;
    verdict_.depth = depth_;
    return Step::failed;
  }

  static constexpr Action same(Action action, ActionKind kind, int stage) {
    return {.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = action.index};
  }

  // Whether it stands there, of whatever version, which it takes on.
  constexpr bool in_row(int device, int from, Action& wanted) const {
    ActionSpan const row = row_of(table_, device);
    for (int i = from; i < row.size; ++i) {
      if (row[i].kind == wanted.kind && row[i].stage == wanted.stage &&
          row[i].index == wanted.index) {
        wanted.version = row[i].version;
        return true;
      }
    }
    return false;
  }

  // The counter does not stand at the action's microbatch.
  constexpr Step not_its_turn(int d, Action action, int next, ActionKind kind) {
    if (action.index < next) {
      return fail(Flaw::doubled, d, action);
    }
    Action earlier = same(action, kind, action.stage);
    earlier.index = next;
    Action split = earlier;  // a backward may stand there in two parts
    split.kind = kind == ActionKind::backward ? ActionKind::input_gradient : kind;
    if (!in_row(d, position_[d], earlier)) {
      if (!in_row(d, position_[d], split)) {
        return fail(Flaw::missing, d, earlier, action);
      }
      earlier = split;
    }
    bool const ends = action.kind == ActionKind::backward || kind == ActionKind::weight_gradient;
    return fail(ends ? Flaw::retired_out_of_order : Flaw::out_of_order, d, action, earlier);
  }

  // What the action needs was not done before.
  constexpr Step lacks(int d, Action action, ActionKind kind, int stage) {
    Action needed = same(action, kind, stage);
    Action split = needed;
    split.kind = kind == ActionKind::backward ? ActionKind::input_gradient : kind;
    if (!in_row(d, position_[d], needed)) {
      if (!in_row(d, position_[d], split)) {
        return fail(Flaw::missing, d, needed, action);
      }
      needed = split;
    }
    return fail(Flaw::before_its_input, d, action, needed);
  }

  // The next microbatch that the stage sends or receives.
  constexpr int& moved(ActionKind kind, int stage) {
    return moved_[4 * stage + static_cast<int>(kind) - static_cast<int>(ActionKind::send_forward)];
  }

  constexpr Step forward(int d, Action const& action) {
    int const s = action.stage;
    if (forwarded_[s] != action.index) {
      return not_its_turn(d, action, forwarded_[s], ActionKind::forward);
    }
    if (edges_.crossing_in[s] >= 0 && moved(ActionKind::receive_forward, s) <= action.index) {
      return lacks(d, action, ActionKind::receive_forward, s);
    }
    for (int e = edges_.local_in[s]; e >= 0; e = edges_.next_in[e]) {
      if (forwarded_[map_.edge[e].from] <= action.index) {
        return lacks(d, action, ActionKind::forward, map_.edge[e].from);
      }
    }
    ++forwarded_[s];
    return Step::done;
  }

  constexpr Step backward(int d, Action const& action) {
    int const s = action.stage;
    if (backed_[s] != action.index) {
      return not_its_turn(d, action, backed_[s], action.kind);
    }
    if (action.kind == ActionKind::backward && retired_[s] != action.index) {
      return not_its_turn(d, action, retired_[s], ActionKind::weight_gradient);
    }
    if (forwarded_[s] <= action.index) {
      return lacks(d, action, ActionKind::forward, s);
    }
    if (edges_.crossing_out[s] >= 0 && moved(ActionKind::receive_backward, s) <= action.index) {
      return lacks(d, action, ActionKind::receive_backward, s);
    }
    for (int e = edges_.local_out[s]; e >= 0; e = edges_.next_out[e]) {
      if (backed_[map_.edge[e].to] <= action.index) {
        return lacks(d, action, ActionKind::backward, map_.edge[e].to);
      }
    }
    ++backed_[s];
    if (action.kind == ActionKind::backward) {
      ++retired_[s];
    }
    return Step::done;
  }

  constexpr Step weight_gradient(int d, Action const& action) {
    int const s = action.stage;
    if (retired_[s] != action.index) {
      return not_its_turn(d, action, retired_[s], ActionKind::weight_gradient);
    }
    if (backed_[s] <= action.index) {
      return lacks(d, action, ActionKind::input_gradient, s);
    }
    ++retired_[s];
    return Step::done;
  }

  Table const& table_;
  StageMapView map_;
  int share_;  // microbatches of a copy
  int depth_;
  StageEdges edges_;
  Scratch<int> memory_;
  int* forwarded_;  // of each stage, the next microbatch to go forward
  int* backed_;     // … to go backward, by B or I
  int* retired_;    // … to end, by B or W
  int* moved_;      // … to send and receive, forward and backward
  int* position_;   // of each device in its row
  Verdict verdict_;
};

}  // namespace tandem::detail
