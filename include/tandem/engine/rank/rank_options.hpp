// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankOptions: what a rank is made for; Watch: what it calls while it waits.

#include <optional>
#include <vector>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/optim/weight_average.hpp>
#include <tandem/runtime/cuda_options.hpp>
#include <tandem/runtime/device_spec.hpp>
#include <tandem/schedule/table/action_table.hpp>

namespace tandem {

/// What a rank is made for.
struct RankOptions {
  int rank = 0;
  int largest_microbatch = 1;
  DeviceSpec device{};
  Optimizer optimizer{};
  std::vector<ParameterGroup> groups{};
  double clip_value = 0.0;
  WeightAverage average{};
  LossScaling scaling = LossScaling::off();
  /// Rows of passes and messages that were imported, and their microbatches; null: the strategy's.
  ActionRows const* rows = nullptr;
  int microbatches = 0;
  int replicas = 1;              ///< where the strategy takes any number; the others tell theirs
  std::optional<bool> record{};  ///< on a GPU: record a step as a graph and replay it; empty: yes
  bool debug = false;            ///< wait for each action, and name the one that fails
  CudaOptions cuda{};
};

/// Arrays of the trained parameters' size that the rank keeps between steps: the optimizer's states
/// and the averages of the weights.
TANDEM_ONCE int arrays_of(RankOptions const& options);

/// How the host waits for a device that works on its own: for so long, and looking after the other
/// ranks meanwhile.
struct Watch {
  using Duration = std::chrono::steady_clock::duration;
  /// Called again and again; throws when the wait is in vain. Null: nobody to look after.
  void (*look)(void* context, int rank, Duration waited) = nullptr;
  void* context = nullptr;
  int rank = 0;
  std::chrono::milliseconds timeout = std::chrono::minutes{10};

  /// What a Feed waits with.
  [[nodiscard]] auto waiter() const {
    return [*this](auto& device, auto const& event) {
      // The others' time-out names who is missing; the device's own is for a wait without others.
      device.wait(
          event, [this](Duration waited) { look_after(waited); }, timeout + grace);
      look_after(Duration::zero());  // after an abort the device goes on, with wrong numbers
    };
  }

 private:
  static constexpr std::chrono::milliseconds grace = StallLimit::grace / 2;

  void look_after(Duration waited) const {
    if (look != nullptr) {
      look(context, rank, waited);
    }
  }
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE int arrays_of(RankOptions const& options) {
  return states_of(options.optimizer) + (options.average.on() ? 1 : 0);
}

}  // namespace tandem

#endif
