// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Trainer: a network, a strategy and a backend put to work on data.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/geometry.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/train/bad_sample.hpp>
#include <tandem/train/confusion.hpp>
#include <tandem/train/count_confusion.hpp>
#include <tandem/train/decode_network.hpp>
#include <tandem/train/generate.hpp>
#include <tandem/train/options/check_options.hpp>
#include <tandem/train/options/check_types.hpp>
#include <tandem/train/options/default_metric.hpp>
#include <tandem/train/options/default_transport.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/options/refused_trainer.hpp>
#include <tandem/train/ranks/imported_table.hpp>
#include <tandem/train/ranks/make_rank_options.hpp>
#include <tandem/train/ranks/program_facts.hpp>
#include <tandem/train/ranks/workers_of.hpp>
#include <tandem/train/step_batches.hpp>
#include <tandem/train/trainer_core.hpp>

namespace tandem {

namespace detail {

/// What a Trainer's types are lowered to, and one sentence where they do not go together.
template <class Net, class S, class Backend, class LossType, class MetricType,
          template <int> class Transport>
struct TrainerTypes {
  static_assert(LossFits<Net, LossType>::value);
  static_assert(OutputFits<Net, LossType, MetricType>::value);
  using Named = ComputingBackend<Backend>;
  static_assert(AsynchronyRuns<asynchrony_of<S>().on(), Named>::value);
  static constexpr bool shards = S::batching.sharded_state && S::batching.replicas > 1;
  static constexpr bool shards_gradients = shards && S::batching.sharded_gradients;
  static_assert(ShardedStateRuns < shards && !shards_gradients, Named > ::value);
  static constexpr bool shards_parameters = shards && S::batching.sharded_parameters;
  static_assert(ShardedGradientsRun < shards_gradients && !shards_parameters, Named > ::value);
  static_assert(ShardedParametersRun<shards_parameters, Named>::value);
  static constexpr bool slices = layer_slices_of<S> > 1;
  static constexpr bool deals_rows = tandem::detail::deals_rows<S>;
  static_assert(SequenceRowsRun<deals_rows, Named>::value);
  static constexpr bool has_tiles = tiles_of<S>() != Extent2d{};
  static_assert(TilesRun<has_tiles, Named>::value);
  static_assert(SlicesRun<(slices && !deals_rows && !has_tiles), Named>::value);
  static constexpr bool in_chunks = S::batching.chunks > 1;
  static_assert(ChunksRun<in_chunks, Named>::value);
  static constexpr bool of_host = asynchrony_of<S>().on();
  using Asked = AskedBackend<
      (!of_host || is_host<Named>()) && (!shards || deals_states<Named>()) &&
          (!shards_gradients || deals_gradients<Named>()) &&
          (!shards_parameters || deals_parameters<Named>()) &&
          (!slices || shares_layers<Named>()) && (!deals_rows || computes_rows<Named>()) &&
          (!has_tiles || computes_tiles<Named>()) && (!in_chunks || computes_chunks<Named>()),
      Named>;
  static_assert(BackendFits<Asked>::value);
  using Used = UsedBackend<Asked>;
  using T = typename Used::Master;
  using ProgramType = Program<Net, S, static_cast<int>(sizeof(T)), rewrites_of<Used>()>;
  static_assert(NamedTransportFits<Transport, Asked, ProgramType>::value);
  using Workers = UsedWorkers<ProgramType, Asked, LossType, MetricType, Transport>;
  using Batches = StepBatches<ProgramType, Used, LossType, MetricType>;
};

}  // namespace detail

/// Trains Net under strategy S on Backend.
///
///   Trainer<Net, DataParallel<2>, Host> trainer{{.batch = 128}};
///   for (auto epoch : epochs(10)) trainer.train(data.train(), epoch, Progress{});
///   trainer.evaluate(data.test()).accuracy;
///
/// The process has one worker thread a rank; the calling thread is none of them. Not copyable, not
/// movable (a trait may say otherwise: the move constructor is there for its sentence); does one
/// thing at a time. Another strategy, same microbatches: same numbers.
/// @tparam Backend    models ComputeBackend, and has Verbs and ops: Host, Cuda; or names one, as
///                    OverMpi<Host> does
/// @tparam Transport  Transport<Ranks> models RankTransport for the strategy's ranks
/// The primary template is the error path.
template <class Net, class S, class Backend, class LossType = DefaultLoss<Net>,
          class MetricType = DefaultMetric<LossType>,
          template <int> class Transport = DefaultTransport<Backend>::template type>
class Trainer : public detail::RefusedTrainer {
  static_assert(detail::TrainerArguments<detail::MayBeNetwork<Net>, Strategy<S>, Loss<LossType>,
                                         Metric<MetricType>>::value);

 public:
  using detail::RefusedTrainer::RefusedTrainer;
};

template <class Net, class S, class Backend, class LossType, class MetricType,
          template <int> class Transport>
  requires(detail::IsNetwork<Net>&& Strategy<S>&& Loss<LossType>&& Metric<MetricType>)
class Trainer<Net, S, Backend, LossType, MetricType, Transport>
    : public TrainerCore<typename detail::TrainerTypes<Net, S, Backend, LossType, MetricType,
                                                       Transport>::Batches::Type> {
  using Types = detail::TrainerTypes<Net, S, Backend, LossType, MetricType, Transport>;
  using Used = typename Types::Used;
  using Batches = typename Types::Batches;
  using StepBatchType = typename Batches::Type;

 protected:
  using Core = TrainerCore<StepBatchType>;

 public:
  using typename Core::In;
  using typename Core::T;
  using typename Core::Target;
  using ProgramType = typename Types::ProgramType;
  using Workers = typename Types::Workers;
  using RankType = typename Workers::RankType;
  static constexpr auto const& graph = ProgramType::network;
  static constexpr Shape input = graph.node[0].out;
  static constexpr Shape output = graph.output().out;

  /// Plans and allocates everything, and sets the initial parameters.
  /// @throws ContractError  an option is out of range, a parameter group matches nothing, or the
  ///                        world has no whole number of replicas
  explicit Trainer(TrainerOptions options = {})
      : Trainer{[](TrainerOptions const& own) { return make_workers(own); },
                checked(program_facts<ProgramType>, bound<Used>(std::move(options)))} {}

  /// With an optimizer of any type that is an ElementOptimizer or a TensorOptimizer, in place of
  /// the one of the options: only its update is compiled.
  /// @throws ContractError  likewise, or a setting of the optimizer is out of range
  template <class O>
  Trainer(TrainerOptions options, O const& optimizer)
      : Trainer{with_optimizer(std::move(options), detail::optimizer_for<Used>(optimizer))} {}

  Trainer(Trainer&& other) : Trainer{other.options()} {
    static_assert(sizeof(Trainer) == 0,
                  "Trainer is not movable, since its ranks hold on to it: keep "
                  "std::unique_ptr<Trainer<...>> in a container, or a std::list with emplace_back");
  }

  /// One epoch over @p data. Each call trains, also where a second loop counts from 0 again: the
  /// order of samples and position().epoch go by the epochs of the whole run.
  ///
  /// After load() a program asks for epochs() of the trainer, which begin with the one that was
  /// interrupted; it goes on where it stopped. A program that asks for all epochs again, or runs
  /// again a loop that an exception has left, gets no steps for those that are trained already.
  /// @throws NonFiniteLoss  names step and rank, or where all losses are finite the parameter
  ///                        whose gradient is not; parameters are those of before the step. With
  ///                        loss scaling a gradient that is not finite is no error, but a step
  ///                        that is skipped, until the scale is as good as nothing
  /// @throws ContractError  data does not fit the network, or its last batch the strategy
  /// @throws StoppedBySignal  one came, where TrainerOptions::checkpoints has on_signals; all is
  ///                          saved, and the next train() of this epoch goes on behind this step
  template <class D>
  EpochResult train(D const& data, Epoch epoch, Progress const& progress = Progress::none()) {
    static_assert(detail::expect_dataset<D>());
    return train_watched(data, epoch, progress, nullptr);
  }

  /// The same, and each of @p watchers is called after each step, on this thread, in their order:
  ///
  ///   trainer.train(data, epoch, Progress{}, [&](StepReport const& report) {
  ///     return report.loss < 0.1 ? AfterStep::stop : AfterStep::go_on;  // or return nothing
  ///   });
  ///
  /// A watcher may save(), evaluate(), predict() and set_learning_rate(), but not train; of several
  /// processes each calls its own, and all must do the same. The next step is not prepared before
  /// they have returned, which costs a GPU what it would have done meanwhile.
  template <class D, StepWatcher... Watchers>
  EpochResult train(D const& data, Epoch epoch, Progress const& progress,
                    Watchers&&... watchers) requires(sizeof...(Watchers) > 0) {
    static_assert(detail::expect_dataset<D>());
    auto const all = [&](StepReport const& report) {
      bool stops = false;
      ((stops = detail::stops(watchers, report) || stops), ...);
      return stops;
    };
    typename Core::Watch const watch{all};
    return train_watched(data, epoch, progress, &watch);
  }
  template <class D, StepWatcher... Watchers>
  EpochResult train(D const& data, Epoch epoch,
                    Watchers&&... watchers) requires(sizeof...(Watchers) > 0) {
    static_assert(detail::expect_dataset<D>());
    return train(data, epoch, Progress::none(), watchers...);
  }

  /// Loss and metrics on @p data, in its order and without random augmentation. States of Stateful
  /// layers are carried from its beginning, where they are 0, to its end; those of training stay.
  /// @param which  of two models, where the strategy trains two; where TrainerOptions::average is
  ///               on, `average` evaluates the averages of the weights, `first` the weights
  /// @throws ContractError  data does not fit the network, or is empty
  template <class D>
  Evaluation evaluate(D const& data, WhichModel which = WhichModel::average) {
    static_assert(detail::expect_dataset<D>());
    auto source = source_of(data);
    return this->evaluate_on(source, which);
  }

  /// Which class samples of each class of @p data are taken for, by the largest output, the first
  /// of equals. Soft labels count for the largest share; an ignored label counts for nothing.
  ///
  ///   std::fputs(trainer.confusion(mnist.test()).table().c_str(), stdout);
  ///
  /// Whole numbers, the same under every strategy and on every process.
  /// @throws ContractError  as evaluate(); or an output is a NaN
  template <class D>
  Confusion confusion(D const& data, WhichModel which = WhichModel::average) {
    static_assert(detail::expect_dataset<D>());
    constexpr bool labelled = is_classifier<LossType>;
    static_assert(labelled,
                  "confusion(data): the loss must be of one label a sample, as SoftmaxCrossEntropy "
                  "and SoftCrossEntropy are");
    static_assert(!labelled || output.elements() <= Confusion::most,
                  "confusion(data): at most 4096 classes, of which a matrix takes 128 MiB; count "
                  "what you need from predict(data)");
    auto const call = this->one_call().begin("confusion()");
    auto source = source_of(data);
    this->meet("confusion()", this->of_data(source.size(), which));
    auto const other = this->stand_in(which);
    Confusion matrix{labelled ? static_cast<int>(output.elements()) : 1};
    if constexpr (labelled) {
      this->for_outputs(source, &Batches::check,
                        [&](Batch<In, Target> const& batch, std::span<T const> outputs) {
                          add_samples<LossType>(matrix, this->group(), batch, outputs);
                        });
      if (this->options().world.processes > 1) {
        add_over_processes(this->group(), matrix.counts());
      }
    }
    return matrix;
  }

  /// The network's outputs in evaluation mode. Shapes: data (N, input); returns (N, output), zeros
  /// behind the end of a sequence. Of several processes each has all of them.
  template <class D>
  std::vector<float> predict(D const& data, WhichModel which = WhichModel::average) {
    static_assert(detail::expect_dataset<D>());
    static_assert(!is_of_criterion<LossType> || !Dataset<D>,
                  "predict(data): this network's output are losses, made with the targets; take "
                  "evaluate(data), or generate(trainer, prompt) for text");
    auto source = source_of(data);
    return this->predict_on(source, which);
  }

  /// Writes on behind @p prompt, tokens in [0, V), with a language model: a network of Tokens that
  /// ends with a Vocabulary. Keys and values are carried from token to token, so that each costs a
  /// pass over one row. The same on every strategy but for rounding.
  /// @throws ContractError  the prompt is empty, has a token out of range, or an option is
  std::vector<std::int32_t> generate(std::span<std::int32_t const> prompt,
                                     GenerateOptions const& generate_options = {},
                                     WhichModel which = WhichModel::average) {
    static_assert(detail::Generates<reads_and_writes_tokens,
                                    detail::looks_back_only(Leaves<typename Net::body>{})>::value);
    auto const call = this->one_call().begin("generate()");
    this->meet("generate()", this->of_data(std::ssize(prompt), which));
    if constexpr (!reads_and_writes_tokens) {
      return {};
    } else {
      check_indices(prompt, 0, graph.node[0].limit, 0, "token");
      detail::check_row_by_row(this->group().batching());
      auto const other = this->stand_in(which);
      return generate_tokens(
          prompt, generate_options, input[0], graph.output().limit,
          [&](std::span<std::int32_t const> tokens, int position, std::span<float> logits) {
            make_in_parts(this->group(), this->options().world.processes, {logits}, [&] {
              this->forward({.x = tokens.data(),
                             .size = 1,
                             .time = static_cast<int>(tokens.size()),
                             .position = position,
                             .scores = logits.data()});
            });
          });
    }
  }

  /// The likeliest texts by beam search, the best of each source first: its translations, of a
  /// network on two inputs, and of a language model what follows behind it. What rows hand on is
  /// carried from token to token; each open hypothesis is a sample of a batch. Of several processes
  /// all call it, and find the same; they share the scores of each token, V a hypothesis.
  /// @throws ContractError  a source is empty, too long or has a token out of range, or the beam is
  ///                        wider than a device has memory for
  std::vector<std::vector<Hypothesis>> search(DecodeTask const& task, Beam const& beam = {},
                                              WhichModel which = WhichModel::average) {
    static_assert(detail::Searches<Net, reads_and_writes_tokens, ProgramType>::value);
    auto const call = this->one_call().begin("search()");
    this->meet("search()", this->of_data(std::ssize(task.sources), which));
    if constexpr (!reads_and_writes_tokens) {
      return {};
    } else {
      for (auto const& source : task.sources) {
        check_indices(source, 0, graph.node[0].limit, 0, "token");
      }
      auto const other = this->stand_in(which);
      auto const sizes = detail::decode_sizes(this->group().facts(), this->options().batch,
                                              this->group().batching());
      return detail::decode(sizes, task, beam, [&](detail::DecodeCall const& rows) {
        make_in_parts(this->group(), this->options().world.processes, {rows.scores, rows.coverage},
                      [&] { this->forward(detail::step_of<StepBatchType>(rows)); });
      });
    }
  }

  /// One step on the caller's own batch. Shapes: x (B, input); targets (B, targets a sample), for
  /// any B up to TrainerOptions::batch. Of sequences x may have fewer rows than the network takes.
  StepResult step(std::span<In const> x, std::span<Target const> targets,
                  Sequences const& sequences = {}) {
    auto const call = this->one_call().begin("step()", OneCall::trains);
    this->meet_at_some_steps(x.size());
    StepBatchType const batch = checked_batch(x, targets, sequences);
    return this->step_on(batch, [&] { return bad_sample_of(x, targets, std::size_t(batch.size)); });
  }

  /// One step like step(), and when each action and collective of every rank of this process began
  /// and ended. Walked, not replayed, and stamped: a little slower than the steps around it.
  Trace trace_step(std::span<In const> x, std::span<Target const> targets,
                   Sequences const& sequences = {}) {
    check_traceable(this->group().facts().asynchrony);
    auto const call = this->one_call().begin("trace_step()", OneCall::trains);
    this->meet_at_some_steps(x.size());
    StepBatchType const batch = checked_batch(x, targets, sequences);
    this->step_on(
        batch, [&] { return bad_sample_of(x, targets, std::size_t(batch.size)); }, true);
    return this->group().traced();
  }

  /// @throws ContractError  the samples are not what the network takes, or its loss wants
  template <class D>
  static void check_dataset(D const& data) {
    static_assert(detail::expect_dataset<D>());
    auto source = source_of(data);
    check_samples(static_cast<typename Core::Data&>(source).shapes(), Batches::facts.wanted,
                  output);
  }

  [[nodiscard]] Workers& workers() { return static_cast<Workers&>(this->group()); }

 protected:
  /// @param options  checked
  TANDEM_COLD Trainer(typename Core::MakeGroup make, TrainerOptions options)
      : Core{Batches::facts, std::move(options), make} {}

 private:
  static constexpr bool reads_and_writes_tokens =
      is_of_criterion<LossType> && graph.node[0].limit > 0;

  TANDEM_COLD static std::unique_ptr<typename Core::Group> make_workers(
      TrainerOptions const& options) {
    ImportedTable const table = table_for(program_facts<ProgramType>, options);
    std::unique_ptr<typename Core::Group> workers{
        new Workers{make_rank_options(program_facts<ProgramType>, options, table),
                    stall_limit(options), options.world}};
    if constexpr (!in_one_process<typename Workers::TransportType>) {
      agree_on_options<Net, S, LossType, MetricType, Used>(*workers, options);
    }
    return workers;
  }

  StepBatchType checked_batch(std::span<In const> x, std::span<Target const> targets,
                              Sequences const& sequences) const {
    return Batches::of(x, targets, sequences,
                       check_batch(graph, targets_shape<LossType>(output), x.size(), targets.size(),
                                   sequences, this->options().batch, this->group().batching()));
  }

  // In place of a dataset that does not fit, so that one sentence is the only error.
  struct Refused {
    operator typename Core::Data &();
    std::int64_t size();
  };
  static Refused source_of(auto const&) { return {}; }
  template <Dataset D>
  static auto source_of(D const& data) {
    static_assert(TargetsFit<D, LossType>::value && InputsFit<ProgramType, D>::value);
    if constexpr (std::is_same_v<typename D::Target, Target>) {
      return DataSourceOf<D, In>{data};
    } else {
      return Refused{};
    }
  }

  template <class D>
  EpochResult train_watched(D const& data, Epoch epoch, Progress const& progress,
                            typename Core::Watch const* watch) {
    auto source = source_of(data);
    return this->train_on(source, epoch, progress, watch);
  }
};

}  // namespace tandem
