// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// EpochTask: what measure_epochs() shall train; EpochMeasurement: what its runs say of E(B).
/// Nothing here trains.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/plan/epochs/epoch_points.hpp>

namespace tandem {

/// How the learning rate grows with the global batch.
enum class BatchScaling {
  linear,       ///< in proportion. Source: Goyal et al., arXiv:1706.02677
  square_root,  ///< with its square root. Source: Krizhevsky, arXiv:1404.5997
};

/// The learning rate rises from 0 in the first `warm_up` epochs and then stays: a schedule that
/// falls would have to know the number of epochs, which is what is measured.
struct EpochTask {
  std::vector<int> batches{};  ///< global, ascending, each a multiple of `microbatch`
  int microbatch = 64;         ///< samples of a pass, and of a batch norm's statistics
  double target = 0.9;         ///< accuracy on the test data
  double most_epochs = 30;     ///< a run that needs more has missed the target
  int evaluations = 4;         ///< an epoch; at most one a step
  int seeds = 3;               ///< runs a batch, of the seeds 1, 2, …
  Optimizer optimizer = Sgd{.learning_rate = 0.02F, .momentum = 0.9F};
  int optimizer_batch = 128;  ///< the global batch that the optimizer's learning rate is for
  BatchScaling scaling = BatchScaling::linear;
  double warm_up = 0.5;        ///< epochs
  int threads_per_device = 0;  ///< 0: all of the machine's
};

/// One training.
struct EpochRun {
  int batch = 0;  ///< global
  int seed = 0;
  double epochs = std::numeric_limits<double>::infinity();  ///< to the target, if it was reached
  double best = 0;                                          ///< accuracy of all evaluations
  std::string fault{};  ///< why training ended before its time: a loss that was not finite

  [[nodiscard]] bool reached() const { return is_finite(epochs); }
};

/// Epochs to the target at a global batch that reached it in every run: the median, and all runs'
/// smallest and largest.
struct MeasuredPoint {
  int batch = 0;
  double epochs = 0;
  double least = 0;
  double most = 0;
  int runs = 0;

  operator EpochPoint() const {
    return {
        .batch = static_cast<double>(batch), .epochs = epochs, .weight = static_cast<double>(runs)};
  }
};

/// What measure_epochs() found.
struct EpochMeasurement {
  EpochTask task{};
  std::int64_t samples = 0;             ///< of an epoch
  std::vector<EpochRun> runs{};         ///< by batch, then by seed
  std::vector<MeasuredPoint> points{};  ///< in order of batch
  std::vector<std::string> missed{};    ///< a sentence for each batch that is no point

  /// For EpochCurve::measured(), EpochCurve::fitted() and fit_critical_batch().
  [[nodiscard]] std::vector<EpochPoint> epoch_points() const {
    return {points.begin(), points.end()};
  }
};

/// The optimizer with its learning rate scaled to a global batch of @p batch.
TANDEM_ONCE [[nodiscard]] Optimizer scaled_optimizer(EpochTask const& task, int batch);

/// @param samples  of the training data
/// @throws ContractError  there is no batch, batches do not ascend, are no multiples of the
///                        microbatch or larger than an epoch; or another number is out of range
TANDEM_ONCE void check_epoch_task(EpochTask const& task, std::int64_t samples);

namespace detail {

/// The median of numbers that ascend; of an even count the mean of the middle two.
TANDEM_ONCE double middle(std::vector<double> const& ascending);

}  // namespace detail

/// Points and sentences from runs. A batch is a point if all its runs reached the target: a median
/// of those that did would be of the lucky ones.
TANDEM_ONCE [[nodiscard]] EpochMeasurement summarize_runs(EpochTask const& task,
                                                          std::int64_t samples,
                                                          std::vector<EpochRun> runs);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE double middle(std::vector<double> const& ascending) {
  std::size_t const half = ascending.size() / 2;
  return ascending.size() % 2 == 1 ? ascending[half] : (ascending[half - 1] + ascending[half]) / 2;
}

TANDEM_ONCE std::string missed_sentence(EpochTask const& task, int batch, std::size_t reached,
                                        std::vector<EpochRun> const& runs) {
  double best = 0;
  std::string fault;
  for (EpochRun const& run : runs) {
    if (run.batch == batch) {
      best = std::max(best, run.best);
      fault = run.fault.empty() ? fault : "; seed " + std::to_string(run.seed) + ": " + run.fault;
    }
  }
  return "batch " + std::to_string(batch) + ": " + std::to_string(reached) + " of " +
         std::to_string(task.seeds) + " runs reached " + digits(task.target, 4) + " within " +
         digits(task.most_epochs, 4) + " epochs; the best accuracy was " + digits(best, 4) + fault;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE Optimizer scaled_optimizer(EpochTask const& task, int batch) {
  double const ratio = static_cast<double>(batch) / task.optimizer_batch;
  double const factor = task.scaling == BatchScaling::linear ? ratio : std::sqrt(ratio);
  Optimizer optimizer = task.optimizer;
  std::visit([&](auto& o) { o.learning_rate = static_cast<float>(o.learning_rate * factor); },
             optimizer);
  return optimizer;
}

TANDEM_ONCE void check_epoch_task(EpochTask const& task, std::int64_t samples) {
  expects(!task.batches.empty(), "measure_epochs(task): give at least one batch in .batches");
  expects(task.microbatch >= 1, "measure_epochs(task): .microbatch must be 1 or more");
  expects(task.target > 0 && task.target <= 1,
          "measure_epochs(task): .target is an accuracy, above 0 and at most 1");
  expects(task.most_epochs > 0 && is_finite(task.most_epochs),
          "measure_epochs(task): .most_epochs must be positive and finite");
  expects(task.evaluations >= 1 && task.seeds >= 1 && task.optimizer_batch >= 1,
          "measure_epochs(task): .evaluations, .seeds and .optimizer_batch must be 1 or more");
  expects(task.warm_up >= 0 && is_finite(task.warm_up),
          "measure_epochs(task): .warm_up must be 0 (none) or more");
  int before = 0;
  for (int const batch : task.batches) {
    std::string const name = "measure_epochs(task): batch " + std::to_string(batch);
    if (batch <= before) {
      throw ContractError{name + " is out of order; give positive batches that ascend"};
    }
    if (batch % task.microbatch != 0) {
      throw ContractError{name + " is no multiple of the microbatch, " +
                          std::to_string(task.microbatch) + "; change one of the two"};
    }
    if (batch > samples) {
      throw ContractError{name + " is larger than the " + std::to_string(samples) +
                          " samples of training data; leave it out"};
    }
    before = batch;
  }
}

TANDEM_ONCE EpochMeasurement summarize_runs(EpochTask const& task, std::int64_t samples,
                                            std::vector<EpochRun> runs) {
  EpochMeasurement result{.task = task, .samples = samples, .runs = std::move(runs)};
  for (int const batch : task.batches) {
    std::vector<double> epochs;
    for (EpochRun const& run : result.runs) {
      if (run.batch == batch && run.reached()) {
        epochs.push_back(run.epochs);
      }
    }
    if (static_cast<int>(epochs.size()) < task.seeds) {
      result.missed.push_back(detail::missed_sentence(task, batch, epochs.size(), result.runs));
      continue;
    }
    std::sort(epochs.begin(), epochs.end());
    result.points.push_back({.batch = batch,
                             .epochs = detail::middle(epochs),
                             .least = epochs.front(),
                             .most = epochs.back(),
                             .runs = task.seeds});
  }
  return result;
}

}  // namespace tandem

#endif
