// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepReport: what Trainer::train() tells its watchers about each step.

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tandem/core/metric_values.hpp>

namespace tandem {

/// One step of train(), after its update.
struct StepReport {
  std::int64_t step = 0;           ///< counted from 1, over all epochs
  std::int64_t epoch = 0;          ///< of the whole run, counted from 0
  std::int64_t samples = 0;        ///< of the epoch trained on by now
  std::int64_t epoch_samples = 0;  ///< in the epoch
  int batch = 0;                   ///< samples of this step
  double loss = 0.0;               ///< mean over the batch, before the update
  double metric = 0.0;             ///< likewise; the first of several; 0 where there is none
  MetricValues metrics{};          ///< likewise, of each metric, by name
  /// Before clipping; 0 where TrainerOptions::clip_norm is 0 and the loss is not scaled. Of the
  /// loss itself, not of the scaled one; of a step that was skipped infinity.
  double gradient_norm = 0.0;
  double learning_rate = 0.0;  ///< of this step, without the scales of groups
  double seconds = 0.0;        ///< since train() began
  double loss_scale = 0.0;     ///< what the loss was multiplied by; 0: loss scaling is off
  bool skipped = false;  ///< since its gradient, so multiplied, was not finite: no weight has moved
  /// Why a checkpoint of TrainerOptions::checkpoints was not written, where that was found behind
  /// the step before; else empty. Standard error has it, too. Good until the watcher returns.
  std::string_view checkpoint_failure{};
};

/// What a watcher may say.
enum class AfterStep {
  go_on,
  stop,  ///< train() returns; the next train() of this epoch goes on behind this step
};

/// What is called with the report of each step, and returns nothing or an AfterStep.
template <class F>
concept StepWatcher = requires(F& watch, StepReport const& report) {
  watch(report);
}
&&(std::same_as<std::invoke_result_t<F&, StepReport const&>, void> ||
   std::same_as<std::invoke_result_t<F&, StepReport const&>, AfterStep>);

namespace detail {

/// Whether @p watch wants to stop.
template <class F>
bool stops(F& watch, StepReport const& report) {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, StepReport const&>>) {
    watch(report);
    return false;
  } else {
    return watch(report) == AfterStep::stop;
  }
}

}  // namespace detail

}  // namespace tandem
