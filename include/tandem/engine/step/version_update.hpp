// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// VersionUpdate: the optimizer of one stage whose weights have several versions, and the
/// prediction of weights to come.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/ops/bound_optimizer.hpp>
#include <tandem/ops/step_state.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>

namespace tandem {

/// Weights as they will be after some more updates in the direction of the momentum: y = w -
/// distance v, where the distance is their number times the learning rate.
///
/// Source: Chen, Yang, Cheng, arXiv:1809.02839 (SpecTrain), equation 4
template <class T>
struct PredictElement {
  T const* weight;
  T const* momentum;
  T* y;
  T distance;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    y[i] = weight[i] - distance * momentum[i];
  }
};

/// Without clipping: a stage's update comes before other stages have their gradients.
template <class Backend>
class VersionUpdate {
 public:
  using Device = typename Backend::Device;
  using P = typename Backend::Master;
  using Memory = ParameterMemory<Backend>;

  /// @param parameters  of the device, a run each
  VersionUpdate(Optimizer optimizer, std::vector<UpdateRun> parameters)
      : optimizer_{std::move(optimizer)}, parameters_{std::move(parameters)}, runs_{parameters_} {
    merge_parameters();
  }

  /// See set_missed(). Allocates nothing.
  TANDEM_COLD void set_missed_steps(std::span<std::int64_t const> missed) {
    set_missed(parameters_, missed);
    merge_parameters();
  }

  /// The first parameter of the network whose gradient is not finite; -1: there is none.
  /// Cost: a pass over the gradients.
  [[nodiscard]] int first_bad(Device& device, Memory const& memory) const {
    if constexpr (requires {
                    Verbs<Backend>::all_finite(device, memory.gradients(), std::int64_t{});
                  }) {
      for (UpdateRun const& r : parameters_) {
        if (!r.frozen && r.role == Role::weight &&
            !Verbs<Backend>::all_finite(device, memory.gradients() + r.begin, r.end - r.begin)) {
          return r.origin;
        }
      }
    }
    return -1;
  }

  /// The weights in place @p from, updated, in place @p to; no allocation.
  /// Cost: one pass over parameters, gradients and states, and a copy where the places differ.
  void run(Device& device, Memory const& memory, StepState const& state, int from, int to) const {
    if (from != to) {
      memory.copy_version(device, from, to);
    }
    std::visit(
        [&](auto const& optimizer) {
          for (UpdateRun const& r : runs_) {
            update_run(device, memory, state, optimizer, r, memory.version(to));
          }
        },
        optimizer_);
  }

  /// What the weights in place @p from will be @p updates later, in place @p to.
  /// @pre the optimizer is Sgd with momentum
  void predict(Device& device, Memory const& memory, StepState const& state, int updates, int from,
               int to) const {
    P const* const weights = memory.version(from);
    P* const predicted = memory.version(to);
    for (UpdateRun const& r : runs_) {
      if (r.frozen || r.role == Role::statistic) {  // as they were when the stream began
        continue;
      }
      double const rate = state.learning_rate * double{r.learning_rate_scale};
      Verbs<Backend>::each(
          device, r.end - r.begin,
          PredictElement<P>{weights + r.begin, memory.state(0) + r.begin, predicted + r.begin,
                            static_cast<P>(rate * static_cast<double>(updates))});
    }
  }

 private:
  template <class O>
  static void update_run(Device& device, Memory const& memory, StepState const& state,
                         O const& optimizer, UpdateRun const& r, P* weights) {
    if (r.frozen) {
      return;
    }
    P const* const gradients = memory.gradients() + r.begin;
    if (r.role == Role::statistic) {
      Verbs<Backend>::each(
          device, r.end - r.begin,
          AverageUpdate<P>{{weights + r.begin, gradients}, static_cast<P>(r.rate)});
      return;
    }
    UpdateSettings const settings{
        .learning_rate = state.learning_rate * double{r.learning_rate_scale},
        .weight_decay = double{r.weight_decay.value_or(optimizer.weight_decay)},
        .gradient_scale = double{r.gradient_scale},
        .step = state.step + 1 - r.missed,
        .clip_value = r.clip_value};
    update_weights<Backend>(
        device, optimizer, weights + r.begin, gradients,
        [&](int s) { return memory.state(s) + r.begin; }, r.end - r.begin, settings);
  }

  TANDEM_COLD void merge_parameters() {
    if (is_by_tensor(optimizer_)) {
      runs_ = parameters_;
    } else {
      merge_runs(parameters_, runs_);
    }
  }

  Optimizer optimizer_;
  std::vector<UpdateRun> parameters_;
  std::vector<UpdateRun> runs_;  // neighbours that are updated alike
};

}  // namespace tandem
