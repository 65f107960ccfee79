// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TableState: what was done of an action table while it is verified, and what is wrong with it.
///
/// The rules share it: Passes, Messages and Updates each hold a reference to the one of their
/// Verification, and count on in it.

#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_edges.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/verify/verdict.hpp>

namespace tandem::detail {

/// What became of an action.
enum class Step : std::uint8_t { done, waiting, failed };

/// Since a stage's actions of one kind stand in ascending order of microbatches, one counter of
/// each kind says all that was done.
template <class Table>
struct TableState {
  constexpr TableState(Table const& rows, StageMapView const& stages, int microbatches,
                       int in_flight, int time_chunks = 1)
      : table{rows},
        map{stages},
        share{microbatches / map.copies * time_chunks},
        chunks{time_chunks},
        depth{in_flight},
        edges{map},
        memory_{7 * map.stages + map.devices},
        forwarded{memory_.data()},
        backed{forwarded + map.stages},
        retired{backed + map.stages},
        moved_{retired + map.stages},
        position{moved_ + 4 * map.stages} {
    for (int s = 0; s < map.stages; ++s) {
      int const first = first_microbatch(s);
      forwarded[s] = backed[s] = retired[s] = first;
      for (int k = 0; k < 4; ++k) {
        moved_[4 * s + k] = first;
      }
    }
  }

  constexpr int first_microbatch(int stage) const {
    return map.copies == 1 ? 0 : stage / map.parts() * share;
  }

  /// The next microbatch that the stage sends or receives.
  constexpr int& moved(ActionKind kind, int stage) {
    return moved_[4 * stage + static_cast<int>(kind) - static_cast<int>(ActionKind::send_forward)];
  }

  /// What a device stands at. @pre its row has not ended
  constexpr Action action_of(int device) const { return row_of(table, device)[position[device]]; }

  constexpr Step fail(Flaw flaw, int device, Action action, Action other = {.index = -1}) {
    verdict.flaw = flaw;
    verdict.rank = device;
    verdict.position = position[device];
    verdict.action = action;
    verdict.other = other;
    verdict.depth = depth;
    return Step::failed;
  }

  static constexpr Action same(Action action, ActionKind kind, int stage) {
    return {.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = action.index};
  }

  /// Whether it is still to come in a row, of whatever version, which it takes on.
  constexpr bool to_come(int device, Action& wanted) const {
    ActionSpan const row = row_of(table, device);
    for (int i = position[device]; i < row.size; ++i) {
      if (row[i].kind == wanted.kind && row[i].stage == wanted.stage &&
          row[i].index == wanted.index) {
        wanted.version = row[i].version;
        return true;
      }
    }
    return false;
  }

  /// The counter does not stand at the action's microbatch.
  constexpr Step not_its_turn(int d, Action action, int next, ActionKind kind) {
    if (action.index < next) {
      return fail(Flaw::doubled, d, action);
    }
    Action earlier = same(action, kind, action.stage);
    earlier.index = next;
    if (!find_either(d, earlier)) {
      return fail(Flaw::missing, d, earlier, action);
    }
    bool const ends = action.kind == ActionKind::backward || kind == ActionKind::weight_gradient;
    return fail(ends ? Flaw::retired_out_of_order : Flaw::out_of_order, d, action, earlier);
  }

  /// What the action needs, of the same microbatch or of another, was not done before.
  constexpr Step lacks(int d, Action action, ActionKind kind, int stage, int index = -1) {
    Action needed = same(action, kind, stage);
    needed.index = index < 0 ? needed.index : index;
    return find_either(d, needed) ? fail(Flaw::before_its_input, d, action, needed)
                                  : fail(Flaw::missing, d, needed, action);
  }

 private:
  // A backward may stand there in two parts, of which it then becomes the first.
  constexpr bool find_either(int d, Action& wanted) const {
    if (to_come(d, wanted)) {
      return true;
    }
    Action split = wanted;
    split.kind = ActionKind::input_gradient;
    if (wanted.kind != ActionKind::backward || !to_come(d, split)) {
      return false;
    }
    wanted = split;
    return true;
  }

 public:
  Table const& table;
  StageMapView map;
  int share;   ///< microbatches of a copy, each counted once for each of its chunks
  int chunks;  ///< of time, of a microbatch
  int depth;
  StageEdges edges;

 private:
  Scratch<int> memory_;

 public:
  int* forwarded;  ///< of each stage, the next microbatch to go forward
  int* backed;     ///< … to go backward, by B or I
  int* retired;    ///< … to end, by B or W

 private:
  int* moved_;  // … to send and receive, forward and backward

 public:
  int* position;  ///< of each device in its row
  Verdict verdict;
};

}  // namespace tandem::detail
