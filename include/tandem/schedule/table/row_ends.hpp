// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RowEnds: where a row has the last pass of each stage; ends_from_last(): whether all devices end
/// the parts of the model in one order.

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem {

namespace detail {

class RowEnds {
 public:
  constexpr RowEnds(ActionSpan row, StageMapView const& map) : last_{map.stages, -1} {
    for (int i = 0; i < row.size; ++i) {
      if (is_compute(row.data[i].kind)) {
        last_[row.data[i].stage] = i;
        last_forward_ = row.data[i].kind == ActionKind::forward ? i : last_forward_;
        last_pass_ = i;
      }
    }
  }

  /// Whether the i-th action is the last pass of its stage.
  [[nodiscard]] constexpr bool ends_stage(ActionSpan row, int i) const {
    return last_[row.data[i].stage] == i;
  }
  /// The last pass of a stage, of all, and the last forward pass; -1 if there is none.
  [[nodiscard]] constexpr int last(int stage) const { return last_[stage]; }
  [[nodiscard]] constexpr int last() const { return last_pass_; }
  [[nodiscard]] constexpr int last_forward() const { return last_forward_; }

 private:
  Scratch<int> last_;
  int last_pass_ = -1;
  int last_forward_ = -1;
};

}  // namespace detail

/// Whether every device ends later parts of the model before others: only then may each reduce a
/// part when it ends, since two copies of a part are on two devices, and one that waited for the
/// other's row to end could keep it from ending.
template <class Table>
constexpr bool ends_from_last(Table const& table, StageMapView const& map) {
  for (int device = 0; device < map.devices; ++device) {
    ActionSpan const row = row_of(table, device);
    detail::RowEnds const ends{row, map};
    int last = map.parts();
    for (int i = 0; i < row.size; ++i) {
      if (is_compute(row.data[i].kind) && ends.ends_stage(row, i)) {
        int const part = row.data[i].stage % map.parts();
        if (part > last) {
          return false;
        }
        last = part;
      }
    }
  }
  return true;
}

/// Whether on every device all forward passes stand before all backward passes.
template <class Table>
constexpr bool goes_forward_first(Table const& table) {
  for (int device = 0; device < devices_of(table); ++device) {
    bool back = false;
    for (Action const& action : row_of(table, device)) {
      if (back && action.kind == ActionKind::forward) {
        return false;
      }
      back =
          back || action.kind == ActionKind::backward || action.kind == ActionKind::input_gradient;
    }
  }
  return true;
}

}  // namespace tandem
