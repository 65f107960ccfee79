// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// held_gradients: of how many microbatches a device must hold the gradients of activations at
/// once, if its row does more than one backward pass after another.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/local_stage.hpp>

namespace tandem {

namespace detail {

/// Follows a row. Stages between which gradients stay on the device make a group; a group's
/// gradients of a microbatch live from the first arrival, or pass, to the last pass.
template <class = void>
class GradientLives {
 public:
  TANDEM_COLD GradientLives(StageMapView const& map, std::span<LocalStage const> stages,
                            int microbatches)
      : stages_{stages} {
    for (LocalStage const& stage : stages) {
      group_.push_back(group_.size());
      retired_.push_back(map.first_microbatch(stage.id, microbatches));
      begun_.push_back(retired_.back() - 1);
      last_stage_.push_back(0);
    }
    for (int e = 0; e < map.edges; ++e) {
      std::size_t const from = local(map.edge[e].from);
      std::size_t const to = local(map.edge[e].to);
      if (from < stages.size() && to < stages.size()) {
        std::replace(group_.begin(), group_.end(), std::size_t{group_[to]},
                     std::size_t{group_[from]});
      }
    }
  }

  TANDEM_COLD void follow(Action action) {
    std::size_t const stage = local(action.stage);
    switch (action.kind) {
      case ActionKind::forward:
        meet_ = meet_ || any_but(group_.size());  // values share memory with gradients
        break;
      case ActionKind::receive_backward:
      case ActionKind::input_gradient:
        begin(stage, action.index);
        break;
      case ActionKind::backward:
        begin(stage, action.index);
        retired_[stage] = action.index + 1;
        break;
      case ActionKind::weight_gradient:
        retired_[stage] = action.index + 1;
        break;
      default:
        break;
    }
  }

  /// 0 where the gradients of one pass are gone when those of the next come.
  [[nodiscard]] int held() const { return meet_ ? most_ : 0; }

 private:
  [[nodiscard]] std::size_t local(int id) const {
    std::size_t stage = 0;
    while (stage < stages_.size() && stages_[stage].id != id) {
      ++stage;
    }
    return stage;
  }

  // The first microbatch of a group that is not over.
  [[nodiscard]] int oldest(std::size_t group) const {
    int first = -1;
    for (std::size_t s = 0; s < group_.size(); ++s) {
      first = group_[s] == group && (first < 0 || retired_[s] < first) ? retired_[s] : first;
    }
    return first;
  }

  // Whether gradients of other groups than @p own live.
  [[nodiscard]] bool any_but(std::size_t own) const {
    return std::any_of(group_.begin(), group_.end(), [&](std::size_t group) {
      return group != own && begun_[group] >= oldest(group);
    });
  }

  TANDEM_COLD void begin(std::size_t stage, int microbatch) {
    std::size_t const own = group_[stage];
    bool const again = begun_[own] == microbatch;
    meet_ = meet_ || any_but(own) || oldest(own) < microbatch || begun_[own] > microbatch ||
            (again && stage > last_stage_[own]);  // memory is shared in the order of the graph
    begun_[own] = std::max(begun_[own], microbatch);
    last_stage_[own] = stage;
    most_ = std::max(most_, begun_[own] - oldest(own) + 1);
  }

  std::span<LocalStage const> stages_;
  std::vector<std::size_t> group_;       // of a stage
  std::vector<int> retired_;             // of a stage: the next microbatch to end
  std::vector<int> begun_;               // of a group: the last microbatch that has begun
  std::vector<std::size_t> last_stage_;  // of a group: that was at work
  bool meet_ = false;
  int most_ = 0;
};

}  // namespace detail

/// More than deferred_microbatches() only of rows that a program brings: where another pass stands
/// between a gradient's arrival and its own, or between those of two stages of the device.
template <class = void>
TANDEM_COLD int held_gradients(ActionSpan row, StageMapView const& map,
                               std::span<LocalStage const> stages, int microbatches) {
  detail::GradientLives<> lives{map, stages, microbatches};
  for (int i = 0; i < row.size; ++i) {
    lives.follow(row[i]);
  }
  return lives.held();
}

}  // namespace tandem
