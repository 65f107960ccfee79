// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepQueue: training steps that have been handed to the ranks and whose results are still to
/// come.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/function_ref.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/train/checkpoint/checkpoint.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/options/check_rates.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/ranks/worker_group.hpp>

namespace tandem {

namespace detail {

TANDEM_ONCE TANDEM_COLD void tell_of_schedules_end(double end, double steps);

}  // namespace detail

/// Keeps a TrainingPosition true to what has been trained: it counts a step when it is queued, and
/// goes back to before the first that failed.
/// @tparam BatchType  StepBatch
template <class BatchType>
class StepQueue {
 public:
  using Workers = WorkerGroup<BatchType>;
  using Batch = BatchType;

  /// @param most  steps that may wait: one more, and a device would have to keep a third batch
  TANDEM_COLD explicit StepQueue(int most) : most_{static_cast<std::size_t>(most)} {
    before_.reserve(most_);
  }

  [[nodiscard]] bool empty() const { return before_.empty(); }
  [[nodiscard]] bool full() const { return before_.size() == most_; }

  /// Says once on standard error that the schedule ends before the run, which takes @p steps in all
  /// as far as is known.
  void foresee(TrainerOptions const& options, double steps) {
    if (!told_ && steps > options.schedule.end()) {
      told_ = true;
      if (options.world.process == 0) {
        detail::tell_of_schedules_end(options.schedule.end(), steps);
      }
    }
  }

  /// Queues one step on every rank. @pre !full()
  /// @throws ContractError  the learning rate is not finite, or negative; nothing was queued
  void push(Workers& workers, TrainerOptions const& options, TrainingPosition& position,
            Batch const& batch, bool traced = false);

  /// The result of the oldest step. @pre !empty()
  /// @param bad_sample  bad_sample(): which sample of that step is to blame for its loss, or ""
  /// @throws NonFiniteLoss  also where a gradient is not finite, or the loss scale is lost; then
  ///                        no step is queued any more, nor has changed anything
  StepResult pop(Workers& workers, TrainingPosition& position,
                 FunctionRef<std::string()> bad_sample);

  /// Collects what is still queued, for when another error is on its way already.
  void drain(Workers& workers, TrainingPosition& position) noexcept {
    try {
      while (!empty()) {
        pop(workers, position, [] { return std::string{}; });
      }
    } catch (...) {
      before_.clear();
    }
  }

 private:
  // Throws what the step has failed by, and goes back to before it.
  [[noreturn]] TANDEM_COLD void fail(Workers& workers, TrainingPosition& position,
                                     StepResult const& result,
                                     FunctionRef<std::string()> bad_sample);

  std::size_t most_;
  std::vector<TrainingPosition> before_;  // of before each step
  bool told_ = false;                     // that the schedule ends before the run
};

template <class BatchType>
void StepQueue<BatchType>::push(Workers& workers, TrainerOptions const& options,
                                TrainingPosition& position, Batch const& batch, bool traced) {
  expects(
      !workers.facts().tables().stateful || position.streams == 0 || position.streams == batch.size,
      "a step of a network with Stateful layers must have as many samples as the step before, "
      "whose states its samples go on with; call trainer.reset_state(), or give .drop_last");
  StepState const state{
      .seed = options.seed,
      .step = position.step,
      .learning_rate = learning_rate_at(options, position.step, position.learning_rate),
      .clip_norm = options.clip_norm};
  foresee(options, static_cast<double>(position.step + 1));
  workers.queue(state, batch, traced);
  before_.push_back(position);
  position.streams = workers.facts().tables().stateful ? batch.size : 0;
  ++position.step;
}

template <class BatchType>
void StepQueue<BatchType>::fail(Workers& workers, TrainingPosition& position,
                                StepResult const& result, FunctionRef<std::string()> bad_sample) {
  position = before_.front();
  position.scaling = result.scaling;
  before_.clear();
  if (result.non_finite < 0) {
    throw lost_loss_scale(position.step, result.loss_scale);
  }
  if (result.bad_gradient >= 0) {
    throw non_finite_gradient(workers.step_of_bad_gradient(position.step),
                              workers.name_of(result.bad_gradient));
  }
  throw non_finite_loss(position.step, result.non_finite, workers.rank_of_loss(result.non_finite),
                        bad_sample());
}

template <class BatchType>
StepResult StepQueue<BatchType>::pop(Workers& workers, TrainingPosition& position,
                                     FunctionRef<std::string()> bad_sample) {
  StepResult const result = workers.collect();
  if (result.failed()) {
    fail(workers, position, result, bad_sample);
  }
  position.scaling = result.scaling;
  before_.erase(before_.begin());
  return result;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void tell_of_schedules_end(double end, double steps) {
  auto const text = [](double number) {
    return std::to_string(static_cast<std::int64_t>(std::min(number, 0x1p62)));
  };
  write_to_stderr(("tandem: the schedule of the learning rate ends after " + text(end) +
                   " steps, and this run asks for " + text(steps) +
                   ": from there on the rate stays as it is; give the schedule all steps of the "
                   "run, epochs times steps an epoch\n")
                      .c_str());
}

}  // namespace tandem::detail

#endif
