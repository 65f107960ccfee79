// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// held_gradients: of how many microbatches a device must hold the gradients of activations at
/// once, if its row does more than one backward pass after another.

#include <algorithm>
#include <span>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/local_stage.hpp>

namespace tandem {

namespace detail {

/// Follows a row. Stages between which gradients stay on the device make a group; a group's
/// gradients of a microbatch live from the first arrival, or pass, to the last pass.
class GradientLives {
 public:
  constexpr GradientLives(StageMapView const& map, std::span<LocalStage const> stages,
                          int microbatches)
      : stages_{stages}, count_{static_cast<int>(stages.size())}, of_{count_} {
    for (int s = 0; s < count_; ++s) {
      int const first = map.first_microbatch(stages[static_cast<std::size_t>(s)].id, microbatches);
      of_[s] = {.group = s, .retired = first, .begun = first - 1};
    }
    for (int e = 0; e < map.edges; ++e) {
      int const from = local(map.edge[e].from);
      int const to = local(map.edge[e].to);
      if (from < count_ && to < count_) {
        int const joined = of_[to].group;
        for (int s = 0; s < count_; ++s) {
          of_[s].group = of_[s].group == joined ? of_[from].group : of_[s].group;
        }
      }
    }
  }

  constexpr ~GradientLives() = default;  // nvcc's implicit one is not constexpr

  constexpr void follow(Action action) {
    int const stage = local(action.stage);
    switch (action.kind) {
      case ActionKind::forward:
        meet_ = meet_ || any_but(count_);  // values share memory with gradients
        break;
      case ActionKind::receive_backward:
      case ActionKind::input_gradient:
        begin(stage, action.index);
        break;
      case ActionKind::backward:
        begin(stage, action.index);
        of_[stage].retired = action.index + 1;
        break;
      case ActionKind::weight_gradient:
        of_[stage].retired = action.index + 1;
        break;
      default:
        break;
    }
  }

  /// 0 where the gradients of one pass are gone when those of the next come.
  [[nodiscard]] constexpr int held() const { return meet_ ? most_ : 0; }

 private:
  struct Own {
    int group = 0;
    int retired = 0;     // of the stage: the next microbatch to end
    int begun = 0;       // of the group that it names: the last microbatch that has begun
    int last_stage = 0;  // likewise: that was at work
  };

  [[nodiscard]] constexpr int local(int id) const {
    int stage = 0;
    while (stage < count_ && stages_[static_cast<std::size_t>(stage)].id != id) {
      ++stage;
    }
    return stage;
  }

  // The first microbatch of a group that is not over.
  [[nodiscard]] constexpr int oldest(int group) const {
    int first = -1;
    for (int s = 0; s < count_; ++s) {
      bool const earlier = first < 0 || of_[s].retired < first;
      first = of_[s].group == group && earlier ? of_[s].retired : first;
    }
    return first;
  }

  // Whether gradients of other groups than @p own live.
  [[nodiscard]] constexpr bool any_but(int own) const {
    bool any = false;
    for (int s = 0; s < count_; ++s) {
      int const group = of_[s].group;
      any = any || (group != own && of_[group].begun >= oldest(group));
    }
    return any;
  }

  constexpr void begin(int stage, int microbatch) {
    int const group = of_[stage].group;
    Own& own = of_[group];
    bool const again = own.begun == microbatch;
    meet_ = meet_ || any_but(group) || oldest(group) < microbatch || own.begun > microbatch ||
            (again && stage > own.last_stage);  // memory is shared in the order of the graph
    own.begun = std::max(own.begun, microbatch);
    own.last_stage = stage;
    most_ = std::max(most_, own.begun - oldest(group) + 1);
  }

  std::span<LocalStage const> stages_;
  int count_;
  Scratch<Own> of_;  // of each local stage
  bool meet_ = false;
  int most_ = 0;
};

}  // namespace detail

/// More than deferred_microbatches() where another pass stands between a gradient's arrival and its
/// own, or between those of two stages of the device: in rows that a program brings, and where a
/// device of a placed network has several stages.
/// @param stages  of the device
template <class Table>
constexpr int held_gradients(Table const& table, int device, StageMapView const& map,
                             std::span<LocalStage const> stages, int microbatches) {
  detail::GradientLives lives{map, stages, microbatches};
  for (Action const& action : row_of(table, device)) {
    lives.follow(action);
  }
  return lives.held();
}

}  // namespace tandem
