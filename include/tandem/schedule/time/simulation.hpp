// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Simulation: the clocks of all devices while they run an action table; see simulate.hpp.

#include <algorithm>
#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/effects.hpp>
#include <tandem/schedule/table/stage_edges.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/clocks.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem::detail {

/// Whether sends and receives stand in the rows.
template <class Table>
constexpr bool has_messages(Table const& table) {
  for (int d = 0; d < devices_of(table); ++d) {
    for (Action const& action : row_of(table, d)) {
      if (is_message(action.kind)) {
        return true;
      }
    }
  }
  return false;
}

/// When something happened, if it has.
struct Moment {
  bool known = false;
  Ticks time = 0;
};

/// Each effect is visited once and once for each wait; a device that waits is looked at again after
/// each round of all devices.
template <class Table>
class Simulation {
 public:
  /// @param reduces_early  of row_order() of the table
  constexpr Simulation(Table const& table, StageMapView const& map, ActionCosts const& costs,
                       int depth, bool reduces_early, CollectiveCosts const& collectives = {})
      : table_{table},
        map_{map},
        costs_{costs},
        lead_{collectives.lead},
        has_messages_{has_messages(table)},
        length_{most_of_a_stage()},
        edges_{map},
        effects_{table, map, reduces_early},
        cursor_{devices_of(table)},
        messages_{effects_, map, costs.transfer, depth},
        collectives_{effects_, map.devices, collectives},
        forward_{has_messages_ ? 0 : std::int64_t{map.stages} * length_},
        gradient_{has_messages_ ? 0 : std::int64_t{map.stages} * length_} {}
  Simulation(Simulation const&) = delete;  // its parts refer to each other
  Simulation& operator=(Simulation const&) = delete;

  template <class Result>
  constexpr void run(Result& result) {
    for (bool progress = true; progress;) {
      progress = false;
      for (int d = 0; d < devices_of(table_); ++d) {  // with the activations
        progress = run_device(d, result) || progress;
      }
      for (int d = devices_of(table_) - 1; d >= 0; --d) {  // with the gradients
        progress = run_device(d, result) || progress;
      }
    }
    result.finished = true;
    for (int d = 0; d < devices_of(table_); ++d) {
      result.finished = result.finished && cursor_[d].next == row_of(table_, d).size;
    }
    summarise(result);
  }

  [[nodiscard]] constexpr StepEffects const& effects() const { return effects_; }
  /// When it ran, if the step has finished.
  [[nodiscard]] constexpr Interval time_of(int collective) const {
    return collectives_.time(collective);
  }

 private:
  constexpr int longest_row() const {
    int longest = 1;
    for (int d = 0; d < devices_of(table_); ++d) {
      longest = row_of(table_, d).size > longest ? row_of(table_, d).size : longest;
    }
    return longest;
  }

  // Microbatches of a stage are at most the actions of a row; where that is much, those of a stage
  // are counted.
  constexpr int most_of_a_stage() const {
    int most = longest_row();
    if (std::int64_t{map_.stages} * most > 65'536) {
      Scratch<int> count{map_.stages};
      most = 1;
      for (int d = 0; d < devices_of(table_); ++d) {
        for (Action const& action : known_part(row_of(table_, d), map_)) {
          bool const counts = action.kind == ActionKind::forward;
          most = counts ? std::max(most, ++count[action.stage]) : most;
        }
      }
    }
    return most;
  }

  // Whether the device could do anything.
  template <class Result>
  constexpr bool run_device(int device, Result& result) {
    Action const* const row = row_of(table_, device).data;
    int const actions = effects_.actions(device);
    Effect const* const effects = effects_.of(device);
    Cursor& cursor = cursor_[device];
    bool progress = false;
    while (cursor.next < actions && wait(device, row[cursor.next], effects, cursor, progress)) {
      Action const& action = row[cursor.next];
      Interval& time = result.action[device][cursor.next];
      time.begin = cursor.clock;
      time.end = cursor.clock += costs_.of(action);
      for (; effects[cursor.effect].place == cursor.next; ++cursor.effect) {
        collectives_.come(device, effects[cursor.effect],
                          time.end - (is_compute(action.kind) ? lead_ : 0));
      }
      note(action, time);
      ++cursor.next;
      progress = true;
    }
    return progress;
  }

  // Moves the clock to when the action can begin; @returns whether that is known.
  constexpr bool wait(int device, Action const& action, Effect const* effects, Cursor& cursor,
                      bool& progress) {
    for (; effects[cursor.effect].place == cursor.next && !effects[cursor.effect].behind;
         ++cursor.effect) {
      Effect const& effect = effects[cursor.effect];
      switch (effect.kind) {
        case EffectKind::work:
          if (!has_messages_ && is_compute(action.kind) && !wait_for_passes(action, cursor.clock)) {
            return false;
          }
          break;
        case EffectKind::begin:
          collectives_.come(device, effect, cursor.clock);
          progress = true;
          break;
        case EffectKind::await:
          if (!collectives_.wait(effect, cursor.clock)) {
            return false;
          }
          break;
        default:
          if (!messages_.move(effect, cursor, progress)) {
            return false;
          }
          progress = true;
      }
    }
    return true;
  }

  // Of a table without messages: moves the clock to when the pass can begin, if that is known.
  constexpr bool wait_for_passes(Action const& action, Ticks& clock) const {
    Moment begin{true, clock};
    int const s = action.stage;
    if (action.kind == ActionKind::forward) {
      wait_over(edges_.local_in[s], true, action.index, 0, begin);
      wait_over(edges_.crossing_in[s], true, action.index, costs_.transfer, begin);
    } else if (action.kind == ActionKind::weight_gradient) {
      wait(begin, gradient_[at(s, action.index)], 0);
    } else {
      wait(begin, forward_[at(s, action.index)], 0);
      wait_over(edges_.local_out[s], false, action.index, 0, begin);
      wait_over(edges_.crossing_out[s], false, action.index, costs_.transfer, begin);
    }
    clock = begin.known ? begin.time : clock;
    return begin.known;
  }

  constexpr void wait_over(int edge, bool forward, int microbatch, Ticks transfer,
                           Moment& begin) const {
    for (int e = edge; e >= 0; e = forward ? edges_.next_in[e] : edges_.next_out[e]) {
      int const other = forward ? map_.edge[e].from : map_.edge[e].to;
      wait(begin, (forward ? forward_ : gradient_)[at(other, microbatch)], transfer);
    }
  }

  static constexpr void wait(Moment& begin, Moment const& need, Ticks transfer) {
    begin.known = begin.known && need.known;
    begin.time = later(begin.time, need.time + transfer);
  }

  // A stage's microbatches are consecutive and at most `length_`, so modulo that they differ.
  constexpr std::int64_t at(int stage, int microbatch) const {
    return std::int64_t{stage} * length_ + microbatch % length_;
  }

  constexpr void note(Action const& action, Interval const& time) {
    if (has_messages_) {
      return;  // nobody asks
    }
    if (action.kind == ActionKind::forward) {
      forward_[at(action.stage, action.index)] = {true, time.end};
    } else if (action.kind == ActionKind::backward || action.kind == ActionKind::input_gradient) {
      gradient_[at(action.stage, action.index)] = {true, time.end};
    }
  }

  template <class Result>
  constexpr void summarise(Result& result) const {
    for (int d = 0; d < devices_of(table_); ++d) {
      DeviceTime& time = result.device[d];
      ActionSpan const row = row_of(table_, d);
      Interval span;
      bool first = true;
      for (int i = 0; i < cursor_[d].next; ++i) {
        if (is_compute(row[i].kind)) {
          Interval const pass = result.action[d][i];
          span = {first ? pass.begin : span.begin, pass.end};
          first = false;
          time.busy += pass.end - pass.begin;
        }
      }
      time.idle_between_actions = span.end - span.begin - time.busy;
      result.makespan = later(result.makespan, span.end);
    }
    for (int d = 0; d < devices_of(table_); ++d) {
      result.device[d].idle_in_step = result.makespan - result.device[d].busy;
    }
  }

  Table const& table_;
  StageMapView map_;
  ActionCosts costs_;
  Ticks lead_;
  bool has_messages_;  // else passes wait for passes
  int length_;
  StageEdges edges_;
  StepEffects effects_;
  Scratch<Cursor> cursor_;
  MessageClocks messages_;
  CollectiveClocks collectives_;
  Scratch<Moment> forward_;   // end of the pass, (stage, microbatch modulo length_)
  Scratch<Moment> gradient_;  // as above, of the input gradient
};

}  // namespace tandem::detail
