// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// measure_epochs(): E(B), the epochs to a target accuracy as a function of the global batch,
/// measured on one device by gradient accumulation.
///
/// A step takes B samples as k microbatches and updates once, with the mean of their gradients, as
/// k data-parallel workers of a microbatch each would. So the activations in memory are those of
/// one microbatch, whatever B is; of the data three global batches are read ahead. It says nothing
/// of the time of a step.
///
/// Source: Pal et al. 2019, arXiv:1907.13257, which calls it delayed gradient update.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/measure/epochs/task.hpp>
#include <tandem/optim/schedule.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/options/loader_options.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/trainer.hpp>

namespace tandem {

/// Of one run: a global batch of @p batch in microbatches of the task's, for SingleDevice<>.
/// @param samples  of the training data
TANDEM_ONCE [[nodiscard]] TrainerOptions epoch_options(EpochTask const& task, int batch, int seed,
                                                       std::int64_t samples);

namespace detail {

/// Accuracies between which the target is crossed, the rest of the way in proportion.
class TargetCrossing {
 public:
  TargetCrossing(double target, double accuracy) : target_{target}, accuracy_{accuracy} {}

  /// Whether @p accuracy, after so many epochs, reaches the target; then epochs() is where.
  TANDEM_ONCE bool reached(double epochs, double accuracy);
  [[nodiscard]] double epochs() const { return epochs_; }

 private:
  double target_;
  double accuracy_;  // of the last evaluation, below the target
  double epochs_ = 0;
};

/// Trains from the beginning until an evaluation reaches the target or most_epochs are over.
template <class TrainerType, Dataset Training, Dataset Test>
void train_to_target(TrainerType& trainer, EpochTask const& task, Training const& training,
                     Test const& test, EpochRun& run) {
  using T = typename TrainerType::T;
  using Target = typename TrainerType::Target;
  run.best = trainer.evaluate(test).accuracy;
  expects(run.best < task.target,
          "measure_epochs(task): .target is reached without training; give a higher one");
  TargetCrossing crossing{task.target, run.best};
  std::int64_t samples = 0;  // trained
  std::int64_t evaluated = 0;
  for (std::int64_t pass = 0; true; ++pass) {
    Loader<Training, T> loader{training,
                               {.batch = run.batch,
                                .seed = trainer.options().seed,
                                .epoch = pass,
                                .drop_last = true,
                                .limit = stall_limit(trainer.options())}};
    for (Batch<T, Target> batch; loader.next(batch);) {
      auto const size = static_cast<std::size_t>(batch.size);
      trainer.step({batch.x, size * static_cast<std::size_t>(TrainerType::input.elements())},
                   {batch.y, size});
      samples += batch.size;
      double const epochs = static_cast<double>(samples) / static_cast<double>(training.size());
      auto const due = static_cast<std::int64_t>(epochs * task.evaluations);
      bool const over = epochs >= task.most_epochs;
      if (due == evaluated && !over) {
        continue;
      }
      evaluated = due;
      double const accuracy = trainer.evaluate(test).accuracy;
      run.best = std::max(run.best, accuracy);
      if (crossing.reached(epochs, accuracy)) {
        run.epochs = crossing.epochs();
        return;
      }
      if (over) {
        return;
      }
    }
  }
}

}  // namespace detail

/// Trains Net on one device, anew for each batch and seed, with cross-entropy, and tests it several
/// times an epoch; where accuracy passes the target between two tests, epochs are interpolated.
///
///   EpochTask const task{.batches = {64, 256, 1024}, .target = 0.88};
///   auto const e = measure_epochs<Net, Host>(task, data.train(), data.test());
///   CriticalBatchLaw const law = fit_critical_batch(e.epoch_points());
///
/// Epochs are samples trained over training.size(); every pass over the data is shuffled and leaves
/// out its last samples if they are less than a batch. The same task gives the same result, on as
/// many threads. One Trainer is compiled for all batches.
/// @param on_run  called with each EpochRun as it ends
/// @throws ContractError  the task is out of range (see check_epoch_task()), data does not fit the
///                        network, or the target is reached before the first step
template <class Net, class Backend, Dataset Training, Dataset Test, class OnRun>
[[nodiscard]] EpochMeasurement measure_epochs(EpochTask const& task, Training const& training,
                                              Test const& test, OnRun const& on_run) {
  using TrainerType = Trainer<Net, SingleDevice<>, Backend>;
  check_epoch_task(task, training.size());
  TrainerType::check_dataset(training);
  std::vector<EpochRun> runs;
  for (int const batch : task.batches) {
    for (int seed = 1; seed <= task.seeds; ++seed) {
      TrainerType trainer{epoch_options(task, batch, seed, training.size())};
      EpochRun run{.batch = batch, .seed = seed};
      try {
        detail::train_to_target(trainer, task, training, test, run);
      } catch (NonFiniteLoss const& error) {
        run.fault = error.what();
      }
      on_run(run);
      runs.push_back(std::move(run));
    }
  }
  return summarize_runs(task, training.size(), std::move(runs));
}

/// The same, silent.
template <class Net, class Backend, Dataset Training, Dataset Test>
[[nodiscard]] EpochMeasurement measure_epochs(EpochTask const& task, Training const& training,
                                              Test const& test) {
  return measure_epochs<Net, Backend>(task, training, test, [](EpochRun const&) {});
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE TrainerOptions epoch_options(EpochTask const& task, int batch, int seed,
                                         std::int64_t samples) {
  std::int64_t const warm_up = std::llround(task.warm_up * static_cast<double>(samples) / batch);
  return {.batch = batch,
          .optimizer = scaled_optimizer(task, batch),
          .schedule = Schedule{Constant{}, warm_up},
          .seed = static_cast<std::uint64_t>(seed),
          .drop_last = true,
          .threads_per_device = task.threads_per_device,
          .rows = make_schedule(SequentialStages::name, 1, batch / task.microbatch)};
}

}  // namespace tandem

namespace tandem::detail {

TANDEM_ONCE bool TargetCrossing::reached(double epochs, double accuracy) {
  if (accuracy >= target_) {
    epochs_ += (epochs - epochs_) * (target_ - accuracy_) / (accuracy - accuracy_);
    return true;
  }
  epochs_ = epochs;
  accuracy_ = accuracy;
  return false;
}

}  // namespace tandem::detail

#endif
