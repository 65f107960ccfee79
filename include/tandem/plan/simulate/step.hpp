// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SimulatedStep: what the simulator found: when everything ran, and what it needed.

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/plan/place/timeline.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem {

/// Of all gradients of a stage, those that are summed at once.
struct GradientBucket {
  double bytes = 0;
  double before_end = 0;  ///< whole so many seconds before the stage's last backward pass ends
  double row_bytes = 0;   ///< beside them: of GradientRows, a worker's
};

/// What a stage takes and keeps of one microbatch, and what gradients it has.
struct StageLoad {
  double forward = 0;          ///< seconds
  double input_gradient = 0;   ///< seconds
  double weight_gradient = 0;  ///< seconds
  double backward = -1;        ///< of both gradients in one pass; below 0: the sum of the two
  double kept_bytes = 0;     ///< from RECV_F, or F where nothing is received, to the end of B or W
  double working_bytes = 0;  ///< in addition while B or I runs: what is computed again
  std::vector<GradientBucket> gradients{};  ///< summed among copies and workers; may be none

  TANDEM_ONCE [[nodiscard]] double seconds(ActionKind kind) const;
};

/// What a table's actions and messages cost.
struct SimulatedCosts {
  std::vector<StageLoad> stage{};       ///< of each stage of the map, copies among them
  std::vector<double> message_bytes{};  ///< of each edge of the map, and of its gradient
  double update = 0;                    ///< seconds of U, and of X
};

/// An action of a device. As in Timeline, a receive begins and ends when its message is there, a
/// send when it has a place to go to.
struct SimulatedAction {
  Action action{};
  PlacementSpan span{};
};

/// From its send until it is there, whether or not somebody takes it then.
struct SimulatedMessage {
  Action action{};  ///< its send; a placement's is that of node `stage`
  int from = 0;     ///< device of the machine
  int to = 0;
  double bytes = 0;
  PlacementSpan span{};
};

/// So many bytes from `time` on.
struct MemoryPoint {
  double time = 0;
  double bytes = 0;

  friend bool operator==(MemoryPoint const&, MemoryPoint const&) = default;
};

struct SimulatedDevice {
  std::vector<SimulatedAction> action{};     ///< its row
  std::vector<SimulatedAction> reduction{};  ///< sums of gradients, beside the row
  double busy = 0;                           ///< seconds of its passes
  double last_pass = 0;                      ///< when the last of them ends
  double idle_in_step = 0;                   ///< makespan less busy
  double idle_between_actions = 0;    ///< from its first pass to the end of its last, less busy
  std::vector<MemoryPoint> memory{};  ///< activations; none before the first point
  double peak_bytes = 0;              ///< most of them at once
};

/// Seconds since the begin of the step, and bytes.
struct SimulatedStep {
  Mesh mesh{};           ///< workers along Axis::data, the devices of each along Axis::model
  double makespan = 0;   ///< when the last pass of all devices ends, and the last reduction
  double last_pass = 0;  ///< when the last pass ends
  std::vector<SimulatedDevice> device{};    ///< a rank each
  std::vector<SimulatedMessage> message{};  ///< by begin
  std::vector<std::string> stage_name{};    ///< of a placement: its nodes; else empty

  /// Idle share of all devices' time in the step.
  TANDEM_ONCE [[nodiscard]] double idle() const;
};

namespace detail {

/// Sums up what the actions and reductions say; both must be there.
TANDEM_ONCE void summarise(SimulatedStep& step, std::vector<StageLoad> const& stages);

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Writes the memory curve of a device from its row.
TANDEM_ONCE void add_memory(SimulatedDevice& device, std::vector<StageLoad> const& stages) {
  std::set<std::pair<int, int>> held;  // stage, microbatch
  double level = 0;
  auto const change = [&](double time, double bytes) {
    level += bytes;
    device.peak_bytes = std::max(device.peak_bytes, level);
    if (!device.memory.empty() && device.memory.back().time == time) {
      device.memory.back().bytes = level;
    } else if (bytes != 0) {
      device.memory.push_back({time, level});
    }
  };
  for (auto const& [action, span] : device.action) {
    ActionKind const kind = action.kind;
    if (kind > ActionKind::receive_forward) {
      continue;
    }
    StageLoad const& stage = stages[static_cast<std::size_t>(action.stage)];
    std::pair const microbatch{static_cast<int>(action.stage), static_cast<int>(action.index)};
    if (kind == ActionKind::receive_forward || kind == ActionKind::forward) {
      change(span.begin, held.insert(microbatch).second ? stage.kept_bytes : 0);
    }
    if (kind == ActionKind::backward || kind == ActionKind::input_gradient) {
      change(span.begin, stage.working_bytes);
      change(span.end, -stage.working_bytes);
    }
    if (kind == ActionKind::backward || kind == ActionKind::weight_gradient) {
      change(span.end, held.erase(microbatch) > 0 ? -stage.kept_bytes : 0);
    }
  }
}

TANDEM_ONCE void summarise(SimulatedStep& step, std::vector<StageLoad> const& stages) {
  for (SimulatedDevice& device : step.device) {
    double first = -1;
    double& last = device.last_pass;
    for (auto const& [action, span] : device.action) {
      if (is_compute(action.kind)) {
        first = first < 0 ? span.begin : first;
        last = std::max(last, span.end);
        device.busy += span.end - span.begin;
      }
    }
    device.idle_between_actions = first < 0 ? 0 : last - first - device.busy;
    step.last_pass = std::max(step.last_pass, last);
    step.makespan = std::max(step.makespan, last);
    for (SimulatedAction const& reduction : device.reduction) {
      step.makespan = std::max(step.makespan, reduction.span.end);
    }
    add_memory(device, stages);
  }
  for (SimulatedDevice& device : step.device) {
    device.idle_in_step = step.makespan - device.busy;
  }
  std::stable_sort(step.message.begin(), step.message.end(),
                   [](auto const& a, auto const& b) { return a.span.begin < b.span.begin; });
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE double StageLoad::seconds(ActionKind kind) const {
  switch (kind) {
    case ActionKind::forward:
      return forward;
    case ActionKind::backward:
      return backward < 0 ? input_gradient + weight_gradient : backward;
    case ActionKind::input_gradient:
      return input_gradient;
    case ActionKind::weight_gradient:
      return weight_gradient;
    default:
      return 0;
  }
}

TANDEM_ONCE double SimulatedStep::idle() const {
  double sum = 0;
  for (SimulatedDevice const& one : device) {
    sum += one.idle_in_step;
  }
  return makespan > 0 ? sum / (makespan * static_cast<double>(device.size())) : 0;
}

}  // namespace tandem

#endif
