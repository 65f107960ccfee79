// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Timeline: when each action of a table begins and ends, and how long devices are idle.

#include <cstddef>
#include <cstdint>

#include <tandem/core/numbered.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem {

/// Time in the unit that the costs are given in. Whole numbers, so that sums are exact.
using Ticks = std::int64_t;

/// What each action takes. Sends take no time.
struct ActionCosts {
  Ticks forward = 1;
  Ticks input_gradient = 1;
  Ticks weight_gradient = 1;
  Ticks transfer = 0;   ///< from a send until its message is there; messages do not delay others
  Ticks backward = -1;  ///< of both gradients in one pass; below 0: the sum of the two
  Ticks update = 0;     ///< of U
  Ticks exchange = -1;  ///< of X; below 0: as U
  Ticks sum = 0;        ///< of each action of a sum, once all its devices are there
  ActionCosts const* of_stage = nullptr;  ///< if not null: the passes of each stage, one by one

  [[nodiscard]] constexpr Ticks of(Action const& action) const {
    return of_stage != nullptr ? of_stage[action.stage].of(action.kind) : of(action.kind);
  }
  [[nodiscard]] constexpr Ticks of(ActionKind kind) const {
    switch (kind) {
      case ActionKind::forward:
        return forward;
      case ActionKind::backward:
        return backward < 0 ? input_gradient + weight_gradient : backward;
      case ActionKind::input_gradient:
        return input_gradient;
      case ActionKind::weight_gradient:
        return weight_gradient;
      case ActionKind::update:
        return update;
      case ActionKind::exchange:
        return exchange < 0 ? update : exchange;
      case ActionKind::reduce_gradient:
      case ActionKind::begin_loss:
      case ActionKind::await_loss:
      case ActionKind::reduce_norm:
        return sum;
      default:
        return 0;
    }
  }
};

/// A receive begins and ends when its message is there, a send when it has a place to go to.
struct Interval {
  Ticks begin = 0;
  Ticks end = 0;

  friend constexpr bool operator==(Interval const&, Interval const&) = default;
};

/// What a device does with a step. Sums of both kinds of idle time are called "bubble" elsewhere.
struct DeviceTime {
  Ticks busy = 0;                  ///< sum of its passes
  Ticks idle_in_step = 0;          ///< makespan less busy
  Ticks idle_between_actions = 0;  ///< from its first pass to the end of its last, less busy
};

/// For ActionTable<Devices, Length>: action[d][i] is when the i-th action of device d runs.
template <int Devices, int Length>
struct Timeline {
  bool finished = false;  ///< else some action waits forever, and the times of those are 0
  Ticks makespan = 0;     ///< when the last pass of all devices ends
  DeviceTime device[static_cast<std::size_t>(Devices)] = {};
  Interval action[static_cast<std::size_t>(Devices)]
                 [static_cast<std::size_t>(Length > 0 ? Length : 1)] = {};
};

/// For ActionRows.
struct TimelineRows {
  bool finished = false;
  Ticks makespan = 0;
  detail::Numbered<DeviceTime> device;
  detail::Numbered<detail::Numbered<Interval>> action;
};

}  // namespace tandem
