// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Update: the optimizer over a rank's flat arrays, with clipping and running averages.

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/step/key.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/engine/step/sums.hpp>
#include <tandem/ops/bound_optimizer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/optim/clip_sets.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>

namespace tandem {

/// Stands for every stage of a device.
inline constexpr int all_stages = -1;

/// Whole stages at a time, all or one by one. Every replica runs it on the same summed gradients
/// and gets the same parameters. The primary template is for devices that share the host's memory.
template <class Backend>
class Update {
 public:
  using Device = typename Backend::Device;
  using T = typename Backend::Master;

  /// @param parameters  of the device, a run each
  /// @param counted     whether the rank's part counts in the norm: of all ranks with the same
  ///                    parameters only one's does
  /// @param clips       of the whole network
  template <class Memory>
  TANDEM_COLD Update(Device& /*device*/, Memory const& /*memory*/, Optimizer optimizer,
                     std::vector<UpdateRun> parameters, bool counted, ClipSets clips)
      : optimizer_{std::move(optimizer)},
        parameters_{std::move(parameters)},
        runs_{is_by_tensor(optimizer_) ? parameters_ : merged(parameters_)},
        counted_{counted},
        clips_{std::move(clips)},
        squares_(clips_.set.size()),
        scales_(clips_.largest.size(), 1.0) {}

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

  /// Finishes *result; if a loss was not finite, apply() does nothing until the next call.
  /// @pre where clipping is on, sum_squares() was called
  template <class Memory>
  void finish(Device& device, Memory const& /*memory*/, StepState const* state,
              StepSums<Backend> const& sums, StepKey const& key, StepResult* result) {
    sums.finish(device, state, key.samples, result);
    stopped_ = result->non_finite < 0 ? 0 : 1;
    if (key.clips && stopped_ == 0) {
      double const norm = clip_scales(clips_, squares_, state->clip_norm, scales_);
      result->gradient_norm = state->clip_norm > 0.0 ? norm : 0.0;
    }
  }

  /// Updates the trained parameters of one stage, or of all; no allocation.
  /// Cost: one pass over parameters, gradients and states.
  template <class Memory>
  void apply(Device& device, Memory const& memory, StepState const* state,
             int stage = all_stages) const {
    if (stopped_ != 0) {
      return;
    }
    std::visit(
        [&](auto const& optimizer) {
          for (UpdateRun const& r : runs_) {
            if (stage == all_stages || stage == r.stage) {
              update_run(device, memory, *state, optimizer, r);
            }
          }
        },
        optimizer_);
  }

  /// Where the device says that nothing may change, as a loss was not finite.
  [[nodiscard]] int const* stopped() const { return &stopped_; }

  /// After parameters were written by the host.
  void refresh(Device& /*device*/) {}

  /// Bytes of the device's memory that this has.
  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }

  /// Lets steps update again after one whose loss was not finite.
  void forgive(Device& /*device*/) {}

 private:
  template <class Memory, class O>
  void update_run(Device& device, Memory const& memory, StepState const& state, O const& optimizer,
                  UpdateRun const& r) const {
    if (r.frozen) {
      return;
    }
    T* const parameters = memory.parameters() + r.begin;
    T const* const gradients = memory.gradients() + r.begin;
    if (r.role == Role::statistic) {
      Verbs<Backend>::each(device, r.end - r.begin,
                           AverageUpdate<T>{{parameters, gradients}, static_cast<T>(r.rate)});
      return;
    }
    UpdateSettings const settings{
        .learning_rate = state.learning_rate * double{r.learning_rate_scale},
        .weight_decay = double{r.weight_decay.value_or(optimizer.weight_decay)},
        .gradient_scale = scales_[static_cast<std::size_t>(r.clip_set)] * double{r.gradient_scale},
        .step = state.step + 1,
        .clip_value = r.clip_value};
    update_weights<Backend>(
        device, optimizer, parameters, gradients, [&](int s) { return memory.state(s) + r.begin; },
        r.end - r.begin, settings);
  }

  Optimizer optimizer_;
  std::vector<UpdateRun> parameters_;
  std::vector<UpdateRun> runs_;  // neighbours that are updated alike
  bool counted_;
  int stopped_ = 0;
  ClipSets clips_;
  std::vector<double> squares_;
  std::vector<double> scales_;  // of each set; all 1 where nothing is clipped
};

}  // namespace tandem
