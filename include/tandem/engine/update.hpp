// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Update: the optimizer over a rank's flat arrays, with clipping and running averages.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <tandem/engine/state.hpp>
#include <tandem/engine/step_key.hpp>
#include <tandem/engine/step_sums.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>

namespace tandem {

/// Every replica runs it on the same summed gradients and gets the same parameters. The primary
/// template is for devices that share the host's memory.
template <class Backend>
class Update {
 public:
  using Device = typename Backend::Device;
  using T = typename Backend::Master;

  /// @param parameters  of the device, a run each
  /// @param counted     whether the rank's part counts in the norm: of all ranks with the same
  ///                    parameters only one's does
  /// @param all         parameters of the network
  template <class Memory>
  Update(Device& /*device*/, Memory const& /*memory*/, Optimizer optimizer,
         std::vector<UpdateRun> parameters, bool counted, int all)
      : optimizer_{std::move(optimizer)},
        parameters_{std::move(parameters)},
        runs_{merged(parameters_)},
        counted_{counted},
        squares_(static_cast<std::size_t>(all)) {}

  /// The square sums of this rank's gradients, each at its parameter's place, zeros elsewhere: to
  /// be summed over the ranks before run(), if there are several with different parameters.
  template <class Memory>
  std::span<double> sum_squares(Device& device, Memory const& memory) {
    std::fill(squares_.begin(), squares_.end(), 0.0);
    for (UpdateRun const& r : parameters_) {
      if (counted_ && r.counted && r.role == Role::weight && !r.frozen) {
        squares_[static_cast<std::size_t>(r.origin)] =
            Verbs<Backend>::sum_of_squares(device, memory.gradients() + r.begin, r.end - r.begin);
      }
    }
    return squares_;
  }

  /// Finishes *result and, if every loss is finite, updates all parameters; no allocation.
  /// @pre where clipping is on, sum_squares() was called
  /// Cost: one pass over parameters, gradients and states.
  template <class Memory>
  void run(Device& device, Memory const& memory, StepState const* state,
           StepSums<Backend> const& sums, StepKey const& key, StepResult* result) const {
    sums.finish(device, key.samples, result);
    if (result->non_finite < 0) {
      result->gradient_norm = update(device, memory, *state);
    }
  }

  /// After parameters were written by the host.
  void refresh(Device& /*device*/) {}

  /// Bytes of the device's memory that this has.
  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }

  /// Lets steps update again after one whose loss was not finite.
  void forgive(Device& /*device*/) {}

 private:
  template <class Memory>
  double update(Device& device, Memory const& memory, StepState const& state) const {
    double norm = 0.0;
    double scale = 1.0;
    if (state.clip_norm > 0.0) {
      norm = std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0));
      scale = norm > state.clip_norm ? state.clip_norm / norm : 1.0;
    }
    std::visit(
        [&](auto const& optimizer) {
          for (UpdateRun const& r : runs_) {
            update_run(device, memory, state, scale, optimizer, r);
          }
        },
        optimizer_);
    return norm;
  }

  template <class Memory, class O>
  void update_run(Device& device, Memory const& memory, StepState const& state, double scale,
                  O const& optimizer, UpdateRun const& r) const {
    if (r.frozen) {
      return;
    }
    ParameterRun<T> run{.parameter = memory.parameters() + r.begin,
                        .gradient = memory.gradients() + r.begin};
    if (r.role == Role::statistic) {
      Verbs<Backend>::each(device, r.end - r.begin, AverageUpdate<T>{run, static_cast<T>(r.rate)});
      return;
    }
    for (int s = 0; s < optimizer.states(); ++s) {
      run.state[s] = memory.state(s) + r.begin;
    }
    UpdateSettings const settings{
        .learning_rate = state.learning_rate * double{r.learning_rate_scale},
        .weight_decay = double{r.weight_decay.value_or(optimizer.weight_decay)},
        .gradient_scale = scale,
        .step = state.step + 1};
    Verbs<Backend>::each(device, r.end - r.begin, make_update<T>(optimizer, settings, run));
  }

  Optimizer optimizer_;
  std::vector<UpdateRun> parameters_;
  std::vector<UpdateRun> runs_;  // neighbours that are updated alike
  bool counted_;
  std::vector<double> squares_;
};

}  // namespace tandem
