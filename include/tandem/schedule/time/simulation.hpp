// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Simulation: the clocks of all devices while they run an action table; see simulate.hpp.

#include <algorithm>
#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_edges.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/message_clocks.hpp>
#include <tandem/schedule/time/tail_clocks.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem::detail {

/// When something happened, if it has.
struct Moment {
  bool known = false;
  Ticks time = 0;
};

/// Each action is visited once and once for each wait; a device that waits is looked at again after
/// each round of all devices.
/// @tparam Tail  when sums and averages have come together: TailClocks, or PictureTail
template <class Table, class Tail>
class Simulation {
 public:
  constexpr Simulation(Table const& table, StageMapView const& map, ActionCosts const& costs,
                       int depth, Tail& tail)
      : table_{table},
        map_{map},
        costs_{costs},
        length_{most_of_a_stage()},
        edges_{map},
        cursor_{devices_of(table)},
        messages_{table, map, edges_, costs.transfer, depth},
        tail_{tail},
        forward_{messages_.any() ? 0 : std::int64_t{map.stages} * length_},
        gradient_{messages_.any() ? 0 : std::int64_t{map.stages} * length_} {}

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
        for (Action const& action : row_of(table_, d)) {
          bool const counts = action.kind == ActionKind::forward && is_known(action, map_);
          most = counts ? std::max(most, ++count[action.stage]) : most;
        }
      }
    }
    return most;
  }

  // Whether the device could do anything.
  template <class Result>
  constexpr bool run_device(int device, Result& result) {
    ActionSpan const row = row_of(table_, device);
    Cursor& cursor = cursor_[device];
    bool progress = false;
    while (cursor.next < row.size && is_known(row[cursor.next], map_)) {
      Action const& action = row[cursor.next];
      if (is_message(action.kind) ? !messages_.move(action, cursor, progress)
          : TailClocks::is_of_tail(action.kind)
              ? !tail_.wait(device, action, cursor.clock, progress)
              : !wait_for_passes(action, cursor.clock)) {
        break;
      }
      Interval& time = result.action[device][cursor.next++];
      time.begin = cursor.clock;
      time.end = cursor.clock += costs_.of(action);
      note(device, action, time);
      progress = true;
    }
    return progress;
  }

  // Of a table without messages: moves the clock to when the pass can begin, if that is known.
  constexpr bool wait_for_passes(Action const& action, Ticks& clock) const {
    if (messages_.any()) {
      return true;
    }
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

  constexpr void note(int device, Action const& action, Interval const& time) {
    tail_.note(device, action, time);
    if (messages_.any()) {
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
  int length_;
  StageEdges edges_;
  Scratch<Cursor> cursor_;
  MessageClocks messages_;
  Tail& tail_;
  Scratch<Moment> forward_;   // end of the pass, (stage, microbatch modulo length_)
  Scratch<Moment> gradient_;  // as above, of the input gradient
};

}  // namespace tandem::detail
