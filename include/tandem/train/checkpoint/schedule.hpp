// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CheckpointSchedule: behind which steps a checkpoint is due.

#include <algorithm>
#include <cstdint>

#include <tandem/core/clock.hpp>
#include <tandem/train/options/checkpoints.hpp>

namespace tandem {

/// Steps until as much time has gone by as @p every, if @p steps have taken @p seconds: 1 or more,
/// and no more than twice as many and one, since steps may become slower.
inline std::int64_t steps_until(double every, std::int64_t steps, double seconds) {
  auto const most = static_cast<double>(2 * steps + 1);
  double const wanted = seconds > 0.0 ? every * static_cast<double>(steps) / seconds : most;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(wanted, most)));
}

/// By numbers of steps, which all processes count alike, and by one process's clock.
class CheckpointSchedule {
 public:
  using Time = std::chrono::steady_clock::time_point;

  CheckpointSchedule(Checkpoints const& when, Time now)
      : every_steps_{when.every_steps}, every_seconds_{when.every_seconds}, last_{now} {}

  /// Whether one is due behind step @p step, whatever the clock says.
  [[nodiscard]] bool by_steps(std::int64_t step) const {
    return every_steps_ > 0 && step % every_steps_ == 0 && step != step_;
  }
  [[nodiscard]] bool has_clock() const { return every_seconds_ > 0.0; }
  /// Whether so long has gone by since the last one, or since training could begin.
  [[nodiscard]] bool by_time(Time now) const {
    return has_clock() && std::chrono::duration<double>(now - last_).count() >= every_seconds_;
  }
  /// Whether this step's is there, or being written.
  [[nodiscard]] bool has(std::int64_t step) const { return step == step_; }

  void saved(std::int64_t step, Time now) {
    step_ = step;
    last_ = now;
  }

 private:
  std::int64_t every_steps_;
  double every_seconds_;
  std::int64_t step_ = -1;  // of the last one
  Time last_;
};

}  // namespace tandem
