// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How many microbatches a stage must hold at once, which is what its activations cost.

#include <algorithm>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem {

namespace detail {

/// Follows the row of a stage's device.
class LiveCount {
 public:
  constexpr LiveCount(StageMapView const& map, int stage)
      : map_{map}, stage_{stage}, ended_{map.stages} {}

  constexpr void follow(Action const& action) {
    bool const own = action.stage == stage_;
    if (own) {
      received_ += action.kind == ActionKind::receive_forward ? 1 : 0;
      forwarded_ += action.kind == ActionKind::forward ? 1 : 0;
      most_ = std::max(most_, std::max(received_, forwarded_) - retired_);
    }
    apart_ = apart_ || action.kind == ActionKind::input_gradient;
    if (action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient) {
      ++ended_[action.stage];
      if (own || action.kind == ActionKind::weight_gradient) {
        retire();
      }
    }
  }

  [[nodiscard]] constexpr int most() const { return most_; }

 private:
  // A stage's backward comes behind those of the stages that read from it, its W perhaps not.
  constexpr void retire() {
    retired_ = ended_[stage_];
    for (int e = 0; apart_ && e < map_.edges; ++e) {
      if (map_.edge[e].from == stage_ && !map_.crosses(e)) {
        retired_ = std::min(retired_, ended_[map_.edge[e].to]);
      }
    }
  }

  StageMapView map_;
  int stage_;
  Scratch<int> ended_;  // microbatches of each stage
  bool apart_ = false;  // some backward pass so far is in two
  int received_ = 0;
  int forwarded_ = 0;
  int retired_ = 0;
  int most_ = 0;
};

}  // namespace detail

/// Most microbatches of a stage that are live at once: from RECV_F (F where nothing is received) to
/// the end of B (W where backward is split), in the order of its device's row; and to the end of
/// the W of those stages of the device that read what the stage has made.
///
/// They are consecutive, so microbatch i may live in slot i modulo this number.
/// @pre the table passes verify()
template <class Table>
constexpr int live_microbatches(Table const& table, StageMapView const& map, int stage) {
  detail::LiveCount count{map, stage};
  for (Action const& action : row_of(table, map.device[stage])) {
    count.follow(action);
  }
  return count.most();
}

/// Most microbatches of a stage that are between I and W at once; 0 if backward is not split.
/// @pre the table passes verify()
template <class Table>
constexpr int deferred_microbatches(Table const& table, StageMapView const& map, int stage) {
  int deferred = 0;
  int most = 0;
  for (Action const& action : row_of(table, map.device[stage])) {
    if (action.stage == stage && action.kind == ActionKind::input_gradient) {
      most = std::max(most, ++deferred);
    } else if (action.stage == stage && action.kind == ActionKind::weight_gradient) {
      --deferred;
    }
  }
  return most;
}

}  // namespace tandem
