// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TrainerOptions: everything about training that does not change types; and what it gives back.

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <vector>

#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/parameter_group.hpp>
#include <tandem/optim/schedule.hpp>
#include <tandem/optim/weight_average.hpp>
#include <tandem/runtime/cuda_options.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/train/options/checkpoints.hpp>

namespace tandem {

namespace detail {

/// Names that other libraries have for options: a value says what is written here.
struct BatchSizeIsBatch {
  constexpr BatchSizeIsBatch() = default;
  template <class T>
  constexpr BatchSizeIsBatch(T const& /*value*/) {
    static_assert(sizeof(T) == 0, "TrainerOptions: the global batch is .batch, not .batch_size");
  }
};
struct RateIsTheOptimizers {
  constexpr RateIsTheOptimizers() = default;
  template <class T>
  constexpr RateIsTheOptimizers(T const& /*value*/) {
    static_assert(sizeof(T) == 0,
                  "TrainerOptions: the learning rate is the optimizer's: write .optimizer = "
                  "Sgd{.learning_rate = 0.1F}");
  }
};

}  // namespace detail

/// Trainer<Net, Strategy, Host> trainer{{.batch = 128, .optimizer = Sgd{.learning_rate = 0.1F}}};
struct TrainerOptions {
  int batch = 128;  ///< global batch: the strategy splits it, never multiplies it
  detail::BatchSizeIsBatch batch_size{};  ///< no option: says which is
  /// Sgd, Adam or AdamW. Any other stands behind the options, so that a program compiles the
  /// updates of those that it uses: RMSprop, Adagrad, Lion, Lamb, or one of its own
  /// (ElementOptimizer).
  ///
  ///   Trainer<Net, Strategy, Host> trainer{{.batch = 128}, Lion{.learning_rate = 1e-4F}};
  Optimizer optimizer = Sgd{};
  detail::RateIsTheOptimizers learning_rate{};  ///< no option: says which is
  Schedule schedule{};                          ///< factor of the learning rate by step
  /// Largest norm of the gradient, of all but groups with a clip_norm of their own; 0: no clipping.
  double clip_norm = 0.0;
  /// Largest size of each gradient: what is larger becomes that, behind any clipping by a norm; of
  /// some parameters their group's. 0: any.
  double clip_value = 0.0;
  /// Of the loss, while its gradient is computed, with every precision; updates and norms see it as
  /// if it were not. If nothing is said, LossScaling{} in Fp16, none in the others.
  std::optional<LossScaling> loss_scaling{};
  std::vector<ParameterGroup> groups{};
  WeightAverage average{};  ///< of the weights over the steps, for evaluation; {.decay = 0.999}
  std::uint64_t seed = 0;   ///< of initial weights, order, augmentation, dropout, sampling
  bool shuffle = true;
  bool drop_last = false;      ///< leave out an epoch's last batch if it is not full
  int threads_per_device = 0;  ///< 0: the machine's threads shared out evenly
  int loader_threads = 1;      ///< that read and augment samples; no number of them changes a bit
  /// How long a rank may stand at one action, another rank wait for it, or the dataset read one
  /// sample; not how long a step takes. Longer than the slowest pass of a microbatch; 0: no limit.
  std::chrono::milliseconds timeout = std::chrono::minutes{10};
  /// What to do about a rank or a dataset that does not return; the default ends the process.
  OnStall on_stall{};
  /// Rows of actions for the devices of a replica, in place of the strategy's table: passes only,
  /// or with messages; verified at start-up. Its microbatches take the place of the strategy's.
  ActionRows rows{};
  /// Of the whole batch, under DataParallel<>, whose replicas take a share each: so that a batch is
  /// cut alike on any number of them. 0: as the type says.
  int microbatches = 0;
  Checkpoints checkpoints{};  ///< that train() writes; {.folder = "run7", .every_steps = 500}
  World world{};              ///< processes that train together, and which this one is
  /// On a GPU: record a step as a CUDA graph and replay it; false to debug. If nothing is said, all
  /// but several ranks of one process that talk through NCCL, which may wait for each other for
  /// ever.
  std::optional<bool> record{};
  CudaOptions cuda{};  ///< on a GPU: how its work is queued; {.branches = 4}
};

/// One pass over the training data.
struct EpochResult {
  double loss = 0.0;      ///< mean over the samples, each at the parameters of its step
  double metric = 0.0;    ///< of the trainer's metric, or the first of them; 0 where it has none
  double accuracy = 0.0;  ///< of the metric of this name; NaN where the trainer has none
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double seconds = 0.0;
  double weight = 0.0;       ///< what the loss is a mean over: the samples, or their targets
  double counted = 0.0;      ///< what metrics are means over, likewise
  MetricValues metrics{};    ///< of each metric, by name: result.metrics["top-5 accuracy"]
  bool stopped = false;      ///< by a watcher, and then these are the numbers up to there
  std::int64_t skipped = 0;  ///< steps, of loss scaling: their gradients were not finite

  [[nodiscard]] double samples_per_second() const {
    return seconds > 0.0 ? static_cast<double>(samples) / seconds : 0.0;
  }
};

namespace detail {

/// Adds a batch to the sums of an EpochResult or an Evaluation.
template <class Sums>
void add_batch(Sums& sum, StepResult const& batch) {
  sum.loss += batch.loss * batch.weight;
  sum.metrics.names = batch.metrics.names;
  sum.metrics.count = batch.metrics.count;
  for (int i = 0; i < batch.metrics.count; ++i) {
    sum.metrics.value[i] += batch.metrics.value[i] * batch.counted;
  }
  sum.samples += batch.samples;
  sum.weight += batch.weight;
  sum.counted += batch.counted;
}

template <class Sums>
Sums mean_of(Sums sum) {
  sum.loss /= sum.weight > 0.0 ? sum.weight : 1.0;  // of no targets: 0
  for (double& value : sum.metrics.value) {
    value /= sum.counted > 0.0 ? sum.counted : 1.0;
  }
  int const accuracy = sum.metrics.find("accuracy");
  sum.metric = sum.metrics.value[0];
  sum.accuracy =
      accuracy < 0 ? std::numeric_limits<double>::quiet_NaN() : sum.metrics.value[accuracy];
  return sum;
}

}  // namespace detail

/// Adds one step to the sums of an epoch that began at @p start; mean() makes means of them.
TANDEM_ONCE void add(EpochResult& sum, StepResult const& step,
                     std::chrono::steady_clock::time_point start);

TANDEM_ONCE EpochResult mean(EpochResult const& sum);

/// One pass over evaluation data.
struct Evaluation {
  double loss = 0.0;
  double metric = 0.0;    ///< of the trainer's metric, or the first of them; 0 where it has none
  double accuracy = 0.0;  ///< of the metric of this name; NaN where the trainer has none
  std::int64_t samples = 0;
  double weight = 0.0;     ///< what the loss is a mean over: the samples, or their targets
  double counted = 0.0;    ///< what metrics are means over, likewise
  MetricValues metrics{};  ///< of each metric, by name

  /// Of a language model, whose loss is a mean over targets in nats.
  [[nodiscard]] double perplexity() const { return std::exp(loss); }
  /// Likewise: bits a target, which is a byte or a character where tokens are that.
  [[nodiscard]] double bits() const { return loss / std::numbers::ln2; }
};

/// Adds a batch; mean() makes means of the sums.
TANDEM_ONCE void add(Evaluation& sum, StepResult const& batch);
/// @pre there are samples
TANDEM_ONCE Evaluation mean(Evaluation const& sum);

/// Which epoch of a loop, counted from 0, of how many.
struct Epoch {
  std::int64_t index = 0;
  std::int64_t total = 0;

  constexpr Epoch() = default;
  constexpr Epoch(std::int64_t epoch, std::int64_t of = 0) : index{epoch}, total{of} {}
};

/// for (auto epoch : epochs(10)) trainer.train(data.train(), epoch, Progress{});
class Epochs {
 public:
  struct Iterator {
    Epoch epoch;
    constexpr Epoch operator*() const { return epoch; }
    constexpr Iterator& operator++() {
      ++epoch.index;
      return *this;
    }
    constexpr bool operator!=(Iterator const& other) const {
      return epoch.index != other.epoch.index;
    }
  };

  constexpr explicit Epochs(std::int64_t count, std::int64_t first = 0)
      : count_{count}, first_{first < count ? first : count} {}
  [[nodiscard]] constexpr Iterator begin() const { return {{first_, count_}}; }
  [[nodiscard]] constexpr Iterator end() const { return {{count_, count_}}; }

 private:
  std::int64_t count_;
  std::int64_t first_;
};

/// Epochs @p first, @p first + 1, … of @p count; none where @p first is @p count or more.
/// Trainer::epochs() has the epochs that a run has still to train.
/// @throws ContractError  a number is negative
constexpr Epochs epochs(std::int64_t count, std::int64_t first = 0) {
  expects(count >= 0, "epochs(count): count must be 0 or more");
  expects(first >= 0, "epochs(count, first): first must be 0 or more");
  return Epochs{count, first};
}

}  // namespace tandem

#if TANDEM_BODIES

#include <tandem/train/checkpoint/saver.hpp>

namespace tandem {

TANDEM_ONCE void add(EpochResult& sum, StepResult const& step,
                     std::chrono::steady_clock::time_point start) {
  detail::add_batch(sum, step);
  ++sum.steps;
  sum.skipped += step.skipped ? 1 : 0;
  sum.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TANDEM_ONCE EpochResult mean(EpochResult const& sum) { return detail::mean_of(sum); }

TANDEM_ONCE void add(Evaluation& sum, StepResult const& batch) { detail::add_batch(sum, batch); }

TANDEM_ONCE Evaluation mean(Evaluation const& sum) { return detail::mean_of(sum); }

}  // namespace tandem

#endif
