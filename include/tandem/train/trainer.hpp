// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Trainer: a network, a strategy and a backend put to work on data.

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/core/clock.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/ops/host/user_layer.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/train/batch_check.hpp>
#include <tandem/train/checkpoint.hpp>
#include <tandem/train/options.hpp>
#include <tandem/train/progress.hpp>
#include <tandem/train/worker_group.hpp>

namespace tandem {

/// Accuracy where targets are labels, nothing otherwise.
template <class LossType>
using DefaultMetric =
    std::conditional_t<std::is_integral_v<typename LossType::Target>, Accuracy, NoMetric>;

/// Trains Net under strategy S on Backend.
///
///   Trainer<Net, DataParallel<2>, Host> trainer{{.batch = 128}};
///   for (auto epoch : epochs(10)) trainer.train(data.train(), epoch, Progress{});
///   trainer.evaluate(data.test()).accuracy;
///
/// The process has one worker thread a rank; the calling thread is none of them. Not copyable, not
/// movable; used by one thread at a time. Another strategy, same microbatches: same numbers.
template <class Net, Strategy S, class Backend, Loss LossType = SoftmaxCrossEntropy<>,
          Metric MetricType = DefaultMetric<LossType>,
          template <int> class Transport = ThreadsTransport>
class Trainer {
 public:
  using T = typename Backend::Scalar;
  using Target = typename LossType::Target;
  using ProgramType = Program<Net, S, static_cast<int>(sizeof(T))>;
  using Workers = WorkerGroup<ProgramType, Backend, LossType, MetricType, Transport>;
  static constexpr auto const& graph = ProgramType::graph;
  static constexpr Shape input = graph.node[0].out;
  static constexpr Shape output = graph.output().out;

  /// Plans and allocates everything, and sets the initial parameters.
  /// @throws ContractError  an option is out of range, or a parameter group matches nothing
  explicit Trainer(TrainerOptions options = {})
      : options_{checked(std::move(options))}, workers_{rank_options(options_), options_.timeout} {
    position_.seed = static_cast<std::int64_t>(options_.seed);
    for (int rank = 0; rank < S::ranks; ++rank) {
      auto const parameters = parameters_of(rank);
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        initialize<T>(graph.parameter[p].parameter, static_cast<int>(p), options_.seed,
                      parameters[p].value);
      }
    }
  }

  Trainer(Trainer const&) = delete;
  Trainer& operator=(Trainer const&) = delete;

  /// One epoch over @p data. After load(), epochs already trained return at once and the one that
  /// was interrupted goes on where it stopped.
  /// @throws NonFiniteLoss  names step and rank; parameters are those of before the step
  /// @throws ContractError  data does not fit the network, or its last batch the strategy
  template <Dataset D>
  EpochResult train(D const& data, Epoch epoch, Progress const& progress = Progress::none()) {
    static_assert(TargetsFit<D, LossType>::value);
    check_dataset<LossType>(data, input, output);
    check_epoch<ProgramType>(data.size(), options_.batch, options_.drop_last);
    if (epoch.index < position_.epoch) {
      return {};
    }
    if (epoch.index > position_.epoch) {
      position_.epoch = epoch.index;
      position_.position = 0;
    }
    Loader<D, T> loader{data,
                        {.batch = options_.batch,
                         .seed = options_.seed,
                         .epoch = epoch.index,
                         .shuffle = options_.shuffle,
                         .drop_last = options_.drop_last,
                         .first = position_.position}};
    EpochResult result;
    ProgressLine line{progress, epoch, data.size() - position_.position};
    auto const start = std::chrono::steady_clock::now();
    for (Batch<T, Target> batch; loader.next(batch);) {
      add(result, train_batch(batch.x, batch.y, batch.size));
      position_.position = batch.first + batch.size;
      result.seconds = seconds_since(start);
      line.step(mean(result));
    }
    position_.epoch = epoch.index + 1;
    position_.position = 0;
    line.finish(mean(result));
    return mean(result);
  }

  /// Loss and accuracy on @p data, in its order and without random augmentation.
  /// @throws ContractError  data does not fit the network, or is empty
  template <Dataset D>
  Evaluation evaluate(D const& data) {
    expects(data.size() > 0, "evaluate(data): there are no samples, so no mean over them");
    Evaluation sum;
    for_batches(data, [&](Batch<T, Target> const& batch) {
      check_labels<LossType, MetricType>(targets_of(batch.y, batch.size), output.elements());
      StepResult const r = forward({.x = batch.x, .targets = batch.y, .size = batch.size});
      sum.loss += r.loss * r.samples;
      sum.accuracy += r.metric * r.samples;
      sum.samples += r.samples;
    });
    auto const samples = static_cast<double>(sum.samples);
    return {sum.loss / samples, sum.accuracy / samples, sum.samples};
  }

  /// The network's outputs in evaluation mode. Shapes: data (N, input); returns (N, output).
  template <Dataset D>
  std::vector<float> predict(D const& data) {
    std::vector<float> outputs;
    std::vector<T> memory(static_cast<std::size_t>(options_.batch * output.elements()));
    for_batches(data, [&](Batch<T, Target> const& batch) {
      forward({.x = batch.x, .outputs = memory.data(), .size = batch.size});
      auto const count = static_cast<std::ptrdiff_t>(batch.size * output.elements());
      outputs.insert(outputs.end(), memory.begin(), memory.begin() + count);
    });
    return outputs;
  }

  /// One step on the caller's own batch. Shapes: x (B, input); targets (B, targets a sample), for
  /// any B up to TrainerOptions::batch.
  StepResult step(std::span<T const> x, std::span<Target const> targets) {
    auto const samples = static_cast<std::int64_t>(x.size()) / input.elements();
    expects(static_cast<std::int64_t>(x.size()) == samples * input.elements() &&
                static_cast<std::int64_t>(targets.size()) == samples * LossType::targets(output),
            "step(x, targets): x must be whole samples, with targets for each");
    expects(
        samples <= options_.batch,
        "step(x, targets): more samples than TrainerOptions::batch, for which memory is planned");
    check_training_batch<ProgramType>(static_cast<int>(samples));
    return train_batch(x.data(), targets.data(), static_cast<int>(samples));
  }

  /// Writes parameters, optimizer state and position; see train/checkpoint.hpp for the format.
  void save(std::string const& path) const {
    save_checkpoint(path, parameters(), state_names(options_.optimizer), position_,
                    optimizer_name(options_.optimizer));
  }

  /// Continues where a checkpoint stopped, whatever strategy wrote it; resumes exactly if the
  /// options are the same. On an error nothing has changed.
  void load(std::string const& path) {
    position_ = load_checkpoint(path, all_parameters(), state_names(options_.optimizer),
                                optimizer_name(options_.optimizer));
    options_.seed = static_cast<std::uint64_t>(position_.seed);
  }

  /// Takes the parameters and statistics of a safetensors file, and nothing else of it.
  void load_weights(std::string const& path) { load_parameters(path, all_parameters()); }

  /// Views of the parameters of rank 0 (all replicas have the same), in the network's order; a
  /// gradient is that of the last step, a state one of the optimizer's.
  [[nodiscard]] std::vector<NamedParameter<T>> parameters() const { return parameters_of(0); }

  /// Memory of one rank's tensors, as planned and allocated.
  [[nodiscard]] MemoryReport memory(int rank = 0) const {
    return workers_.rank(rank).memory().report();
  }

  [[nodiscard]] TrainingPosition const& position() const { return position_; }
  [[nodiscard]] TrainerOptions const& options() const { return options_; }
  [[nodiscard]] Workers& workers() { return workers_; }

 private:
  static TrainerOptions checked(TrainerOptions options) {
    expects(options.batch >= 1, "TrainerOptions: batch must be 1 or more");
    expects(options.clip_norm >= 0.0, "TrainerOptions: clip_norm must be 0 (off) or more");
    expects(options.threads_per_device >= 0,
            "TrainerOptions: threads_per_device must be 0 (shared out) or more");
    return options;
  }

  static RankOptions rank_options(TrainerOptions const& options) {
    return {.largest_microbatch = largest_microbatch(options.batch, S::batching),
            .threads = options.threads_per_device > 0 ? options.threads_per_device
                                                      : host::threads_of_each(S::ranks),
            .optimizer = options.optimizer,
            .runs = update_runs(graph, ProgramType::layout, options.groups)};
  }

  StepResult train_batch(T const* x, Target const* targets, int size) {
    check_labels<LossType, MetricType>(targets_of(targets, size), output.elements());
    StepState const state{.seed = options_.seed,
                          .step = position_.step,
                          .learning_rate = learning_rate_of(options_.optimizer) *
                                           options_.schedule.factor(position_.step),
                          .clip_norm = options_.clip_norm};
    StepBatch<T, Target> const batch{.x = x, .targets = targets, .size = size};
    StepResult const result =
        workers_.run([&](typename Workers::RankType& rank) { return rank.train(state, batch); });
    if (result.non_finite >= 0) {
      throw NonFiniteLoss{
          "step " + std::to_string(position_.step) + ": the loss of microbatch " +
          std::to_string(result.non_finite) + " on rank " +
          std::to_string(result.non_finite / S::batching.microbatches) +
          " is not finite; parameters are those of before the step: lower the learning rate, or "
          "set clip_norm"};
    }
    ++position_.step;
    return result;
  }

  StepResult forward(StepBatch<T, Target> const& batch) {
    StepState const state{.seed = options_.seed, .step = position_.step};
    return workers_.run(
        [&](typename Workers::RankType& rank) { return rank.forward(state, batch); });
  }

  template <Dataset D, class F>
  void for_batches(D const& data, F const& f) {
    static_assert(TargetsFit<D, LossType>::value);
    check_dataset<LossType>(data, input, output);
    Loader<D, T> loader{data, {.batch = options_.batch, .shuffle = false, .augment = false}};
    for (Batch<T, Target> batch; loader.next(batch);) {
      f(batch);
    }
  }

  static std::span<Target const> targets_of(Target const* targets, int samples) {
    return {targets, static_cast<std::size_t>(samples * LossType::targets(output))};
  }

  static void add(EpochResult& sum, StepResult const& step) {
    sum.loss += step.loss * step.samples;
    sum.accuracy += step.metric * step.samples;
    sum.samples += step.samples;
    ++sum.steps;
  }
  static EpochResult mean(EpochResult sum) {
    if (sum.samples > 0) {
      sum.loss /= static_cast<double>(sum.samples);
      sum.accuracy /= static_cast<double>(sum.samples);
    }
    return sum;
  }
  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  [[nodiscard]] std::vector<NamedParameter<T>> parameters_of(int rank) const {
    return named_parameters<ProgramType>(workers_.rank(rank).memory(),
                                         states_of(options_.optimizer));
  }
  [[nodiscard]] std::vector<std::vector<NamedParameter<T>>> all_parameters() const {
    std::vector<std::vector<NamedParameter<T>>> list;
    for (int rank = 0; rank < S::ranks; ++rank) {
      list.push_back(parameters_of(rank));
    }
    return list;
  }

  TrainerOptions options_;
  TrainingPosition position_;
  Workers workers_;
};

}  // namespace tandem
