// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Trainer: a network, a strategy and a backend put to work on data.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/available_memory.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/train/agreement.hpp>
#include <tandem/train/bad_sample.hpp>
#include <tandem/train/checkpoint/checkpoint.hpp>
#include <tandem/train/checkpoint/load_weights.hpp>
#include <tandem/train/checkpoint/processes/load.hpp>
#include <tandem/train/checkpoint/processes/outline.hpp>
#include <tandem/train/checkpoint/replicas.hpp>
#include <tandem/train/checkpoint/saver.hpp>
#include <tandem/train/checkpoint/states.hpp>
#include <tandem/train/checkpoint/two_models.hpp>
#include <tandem/train/confusion.hpp>
#include <tandem/train/count_confusion.hpp>
#include <tandem/train/decode_network.hpp>
#include <tandem/train/epoch_cursor.hpp>
#include <tandem/train/epoch_loop.hpp>
#include <tandem/train/generate.hpp>
#include <tandem/train/one_call.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/options/check_options.hpp>
#include <tandem/train/options/check_rates.hpp>
#include <tandem/train/options/check_types.hpp>
#include <tandem/train/options/default_metric.hpp>
#include <tandem/train/options/default_transport.hpp>
#include <tandem/train/options/loader_options.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/options/refused_trainer.hpp>
#include <tandem/train/over_processes.hpp>
#include <tandem/train/parameters.hpp>
#include <tandem/train/plateau.hpp>
#include <tandem/train/progress.hpp>
#include <tandem/train/ranks/imported_table.hpp>
#include <tandem/train/ranks/make_rank_options.hpp>
#include <tandem/train/ranks/stand_in.hpp>
#include <tandem/train/ranks/step_queue.hpp>
#include <tandem/train/ranks/table_for.hpp>
#include <tandem/train/ranks/trace.hpp>
#include <tandem/train/ranks/worker_group.hpp>
#include <tandem/train/step_batches.hpp>
#include <tandem/train/step_report.hpp>

namespace tandem {

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
  static_assert(detail::TrainerArguments<detail::IsNetwork<Net>, Strategy<S>, Loss<LossType>,
                                         Metric<MetricType>>::value);

 public:
  using detail::RefusedTrainer::RefusedTrainer;
};

template <class Net, class S, class Backend, class LossType, class MetricType,
          template <int> class Transport>
  requires(detail::IsNetwork<Net>&& Strategy<S>&& Loss<LossType>&& Metric<MetricType>)
class Trainer<Net, S, Backend, LossType, MetricType, Transport> {
  static_assert(detail::LossFits<Net, LossType>::value);
  static_assert(detail::OutputFits<Net, LossType, MetricType>::value);
  using Named = detail::ComputingBackend<Backend>;
  static_assert(detail::AsynchronyRuns<detail::asynchrony_of<S>().on(), Named>::value);
  static constexpr bool shards = S::batching.sharded_state && S::batching.replicas > 1;
  static constexpr bool shards_gradients = shards && S::batching.sharded_gradients;
  static_assert(detail::ShardedStateRuns < shards && !shards_gradients, Named > ::value);
  static constexpr bool shards_parameters = shards && S::batching.sharded_parameters;
  static_assert(detail::ShardedGradientsRun < shards_gradients && !shards_parameters,
                Named > ::value);
  static_assert(detail::ShardedParametersRun<shards_parameters, Named>::value);
  static constexpr bool slices = detail::layer_slices_of<S> > 1;
  static constexpr bool deals_rows = detail::deals_rows<S>;
  static_assert(detail::SequenceRowsRun<deals_rows, Named>::value);
  static constexpr bool has_tiles = detail::tiles_of<S>() != Extent2d{};
  static_assert(detail::TilesRun<has_tiles, Named>::value);
  static_assert(detail::SlicesRun<(slices && !deals_rows && !has_tiles), Named>::value);
  static constexpr bool in_chunks = S::batching.chunks > 1;
  static_assert(detail::ChunksRun<in_chunks, Named>::value);
  static constexpr bool of_host = detail::asynchrony_of<S>().on();
  using Asked =
      detail::AskedBackend<(!of_host || detail::is_host<Named>()) &&
                               (!shards || detail::deals_states<Named>()) &&
                               (!shards_gradients || detail::deals_gradients<Named>()) &&
                               (!shards_parameters || detail::deals_parameters<Named>()) &&
                               (!slices || detail::shares_layers<Named>()) &&
                               (!deals_rows || detail::computes_rows<Named>()) &&
                               (!has_tiles || detail::computes_tiles<Named>()) &&
                               (!in_chunks || detail::computes_chunks<Named>()),
                           Named>;
  static_assert(detail::BackendFits<Asked>::value);
  using Used = detail::UsedBackend<Asked>;

 public:
  /// Of parameters and of the data that the caller passes.
  using T = typename Used::Master;
  using Target = typename LossType::Target;
  using ProgramType = Program<Net, S, static_cast<int>(sizeof(T)), rewrites_of<Used>()>;
  /// Of the network's input: T, or std::int32_t for Tokens.
  using In = InputOf<ProgramType, Used>;
  static_assert(detail::NamedTransportFits<Transport, Asked, ProgramType>::value);
  using Workers = detail::UsedWorkers<ProgramType, Asked, LossType, MetricType, Transport>;
  using RankType = typename Workers::RankType;
  static constexpr auto const& graph = ProgramType::network;
  static constexpr Shape input = graph.node[0].out;
  static constexpr Shape output = graph.output().out;

  /// Plans and allocates everything, and sets the initial parameters.
  /// @throws ContractError  an option is out of range, a parameter group matches nothing, or the
  ///                        world has no whole number of replicas
  explicit Trainer(TrainerOptions options = {})
      : options_{checked<ProgramType>(bound<Used>(std::move(options)))},
        table_{table_for<ProgramType>(options_)},
        workers_{make_rank_options<ProgramType>(options_, table_),
                 {.timeout = options_.timeout, .world = options_.world},
                 options_.on_stall} {
    agree_on_options<Net, S, LossType, MetricType, Used>(workers_, options_);
    position_.seed = static_cast<std::int64_t>(options_.seed);
    position_.scaling.scale = static_cast<float>(options_.loss_scaling->initial);
    position_.weights = weights_;
    for (auto const& rank : replicas().of_ranks()) {
      for (NamedParameter<T> const& own : rank) {
        initialize<T>(graph.parameter[own.index].parameter, own.owner, options_.seed,
                      detail::writable(own.value));
        for (std::size_t s = 0; s < own.states.size(); ++s) {
          std::ranges::fill(detail::writable(own.states[s]),
                            static_cast<T>(initial_state(options_.optimizer, s)));
        }
      }
    }
    replicas().upload();
  }

  /// With an optimizer of any type that is an ElementOptimizer or a TensorOptimizer, in place of
  /// the one of the options: only its update is compiled.
  /// @throws ContractError  likewise, or a setting of the optimizer is out of range
  template <class O>
  Trainer(TrainerOptions options, O const& optimizer)
      : Trainer{with_optimizer(std::move(options), detail::optimizer_for<Used>(optimizer))} {}

  Trainer(Trainer const&) = delete;
  Trainer(Trainer&& other) : Trainer{other.options_} {
    static_assert(sizeof(Trainer) == 0,
                  "Trainer is not movable, since its ranks hold on to it: keep "
                  "std::unique_ptr<Trainer<...>> in a container, or a std::list with emplace_back");
  }
  Trainer& operator=(Trainer const&) = delete;

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
  template <Dataset D>
  EpochResult train(D const& data, Epoch epoch, Progress const& progress = Progress::none()) {
    return train_epoch(data, epoch, progress, NoWatch{});
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
  template <Dataset D, StepWatcher... Watchers>
  EpochResult train(D const& data, Epoch epoch, Progress const& progress,
                    Watchers&&... watchers) requires(sizeof...(Watchers) > 0) {
    auto const watch = [&](StepReport const& report) {
      bool stops = false;
      ((stops = detail::stops(watchers, report) || stops), ...);
      return stops;
    };
    return train_epoch(data, epoch, progress, watch);
  }
  template <Dataset D, StepWatcher... Watchers>
  EpochResult train(D const& data, Epoch epoch,
                    Watchers&&... watchers) requires(sizeof...(Watchers) > 0) {
    return train(data, epoch, Progress::none(), watchers...);
  }

  /// The states of Stateful layers become 0: the next step's samples begin. train() does so by
  /// itself where an epoch begins; without such layers this does nothing.
  void reset_state() {
    auto const call = one_call_.begin("reset_state()", OneCall::trains);
    if constexpr (ProgramType::stateful) {
      meet("reset_state()");
      workers_.run([](RankType& rank) { rank.reset_states(); });
      position_.streams = 0;
    }
  }

  /// Loss and metrics on @p data, in its order and without random augmentation. States of Stateful
  /// layers are carried from its beginning, where they are 0, to its end; those of training stay.
  /// @param which  of two models, where the strategy trains two; where TrainerOptions::average is
  ///               on, `average` evaluates the averages of the weights, `first` the weights
  /// @throws ContractError  data does not fit the network, or is empty
  template <Dataset D>
  Evaluation evaluate(D const& data, WhichModel which = WhichModel::average) {
    auto const call = one_call_.begin("evaluate()");
    meet("evaluate()", of_data(data.size(), which));
    StandIn<Workers> const stand_in{workers_, which, has_two || has_averages()};
    expects(data.size() > 0, "evaluate(data): there are no samples, so no mean over them");
    Evaluation sum;
    for_batches(data, &Batches::check, [&](Batch<In, Target> const& batch) {
      StepBatchType own = Batches::of(batch);
      own.begins = batch.first == 0;
      add(sum, forward(own));
    });
    expects(sum.weight > 0.0,
            "evaluate(data): no sample has a target that counts, so there is no mean over them");
    return mean(sum);
  }

  /// Which class samples of each class of @p data are taken for, by the largest output, the first
  /// of equals. Soft labels count for the largest share; an ignored label counts for nothing.
  ///
  ///   std::fputs(trainer.confusion(mnist.test()).table().c_str(), stdout);
  ///
  /// Whole numbers, the same under every strategy and on every process.
  /// @throws ContractError  as evaluate(); or an output is a NaN
  template <Dataset D>
  Confusion confusion(D const& data, WhichModel which = WhichModel::average) {
    constexpr bool labelled = is_classifier<LossType>;
    static_assert(labelled,
                  "confusion(data): the loss must be of one label a sample, as SoftmaxCrossEntropy "
                  "and SoftCrossEntropy are");
    static_assert(!labelled || output.elements() <= Confusion::most,
                  "confusion(data): at most 4096 classes, of which a matrix takes 128 MiB; count "
                  "what you need from predict(data)");
    auto const call = one_call_.begin("confusion()");
    meet("confusion()", of_data(data.size(), which));
    StandIn<Workers> const stand_in{workers_, which, has_two || has_averages()};
    Confusion matrix{labelled ? static_cast<int>(output.elements()) : 1};
    if constexpr (labelled) {
      for_outputs(data, &Batches::check,
                  [&](Batch<In, Target> const& batch, std::span<T const> outputs) {
                    add_samples<LossType>(matrix, workers_, batch, outputs);
                  });
      if (options_.world.processes > 1) {
        add_over_processes(workers_, matrix.counts());
      }
    }
    return matrix;
  }

  /// The network's outputs in evaluation mode. Shapes: data (N, input); returns (N, output), zeros
  /// behind the end of a sequence. Of several processes each has all of them.
  template <Dataset D>
  std::vector<float> predict(D const& data, WhichModel which = WhichModel::average) {
    static_assert(!is_of_criterion<LossType> || !Dataset<D>,
                  "predict(data): this network's output are losses, made with the targets; take "
                  "evaluate(data), or generate(trainer, prompt) for text");
    auto const call = one_call_.begin("predict()");
    meet("predict()", of_data(data.size(), which));
    StandIn<Workers> const stand_in{workers_, which, has_two || has_averages()};
    std::int64_t const each = output.elements();
    auto outputs = zeros<float>(data.size() * each, "predict(data)");
    for_outputs(data, &Batches::check_input,
                [&](Batch<In, Target> const& batch, std::span<T const> memory) {
                  std::int64_t const made =
                      output.elements(output.clock == 0 ? batch.time : batch.second_time);
                  for_own_samples(workers_, batch.size, [&](std::int64_t s) {
                    std::copy_n(memory.begin() + s * made, made,
                                outputs.begin() + (batch.first + s) * each);
                  });
                });
    if (options_.world.processes > 1) {
      add_over_processes(workers_, std::span{outputs});
    }
    return outputs;
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
    auto const call = one_call_.begin("generate()");
    meet("generate()", of_data(std::ssize(prompt), which));
    if constexpr (!reads_and_writes_tokens) {
      return {};
    } else {
      check_indices(prompt, 0, graph.node[0].limit, 0, "token");
      detail::check_row_by_row<ProgramType>();
      StandIn<Workers> const stand_in{workers_, which, has_two || has_averages()};
      return generate_tokens(
          prompt, generate_options, input[0], graph.output().limit,
          [&](std::span<std::int32_t const> tokens, int position, std::span<float> logits) {
            make_in_parts(workers_, options_.world.processes, {logits}, [&] {
              forward({.x = tokens.data(),
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
    auto const call = one_call_.begin("search()");
    meet("search()", of_data(std::ssize(task.sources), which));
    if constexpr (!reads_and_writes_tokens) {
      return {};
    } else {
      for (auto const& source : task.sources) {
        check_indices(source, 0, graph.node[0].limit, 0, "token");
      }
      StandIn<Workers> const stand_in{workers_, which, has_two || has_averages()};
      auto const sizes = detail::decode_sizes<ProgramType>(options_.batch, workers_.batching());
      return detail::decode(sizes, task, beam, [&](detail::DecodeCall const& rows) {
        make_in_parts(workers_, options_.world.processes, {rows.scores, rows.coverage},
                      [&] { forward(detail::step_of<StepBatchType>(rows)); });
      });
    }
  }

  /// One step on the caller's own batch. Shapes: x (B, input); targets (B, targets a sample), for
  /// any B up to TrainerOptions::batch. Of sequences x may have fewer rows than the network takes.
  StepResult step(std::span<In const> x, std::span<Target const> targets,
                  Sequences const& sequences = {}) {
    auto const call = one_call_.begin("step()", OneCall::trains);
    meet_at_some_steps(x.size());
    StepBatchType const batch = checked_batch(x, targets, sequences);
    queue_step(batch);
    return collect_step([&] { return bad_sample_of(x, targets, std::size_t(batch.size)); });
  }

  /// One step like step(), and when each action and collective of every rank of this process began
  /// and ended. Walked, not replayed, and stamped: a little slower than the steps around it.
  Trace trace_step(std::span<In const> x, std::span<Target const> targets,
                   Sequences const& sequences = {}) {
    check_traceable(ProgramType::asynchrony);
    auto const call = one_call_.begin("trace_step()", OneCall::trains);
    meet_at_some_steps(x.size());
    StepBatchType const batch = checked_batch(x, targets, sequences);
    queue_step(batch, true);
    collect_step([&] { return bad_sample_of(x, targets, std::size_t(batch.size)); });
    return workers_.traced();
  }

  /// Writes parameters, optimizer state and position; see train/checkpoint/checkpoint.hpp for the
  /// format. Of several processes the first writes, and all must call it, since each has the states
  /// of its samples, or some devices of a replica. Also after a rank has failed, unless in an
  /// update; or a replica is in several processes, or has its part of the states (ShardedState).
  /// @throws FileError  it cannot be written, or has inf or nan; the file there is untouched
  void save(std::string const& path, NonFinite non_finite = NonFinite::refused) const {
    auto const call = one_call_.begin("save()");
    if (ProgramType::stateful || replicas().are_shared()) {
      meet("save()", where());
    }
    auto const states =
        states_of<ProgramType>(workers_, position_.streams, options_.world.processes);
    replicas().fetch();
    if (!leads()) {
      return;
    }
    save_checkpoint(path, replicas().whole(), state_names(options_.optimizer), position_,
                    optimizer_name(options_.optimizer), non_finite, states);
  }

  /// Writes a checkpoint as a folder, `<folder>/step-000420`, which appears whole or not at all;
  /// one of this step is replaced, no other touched. All processes call it, and each writes its
  /// share of the tensors; of one process also after a rank has failed, as save().
  /// @returns its path, in every process
  /// @throws FileError  it cannot be written, or has inf or nan; what was complete is untouched
  std::string save_in(std::string const& folder, NonFinite non_finite = NonFinite::refused) const {
    auto const call = one_call_.begin("save_in()");
    meet("save_in()", where());
    return saver_.save_in(folder, workers_, position_, non_finite);
  }

  /// Writes the trained model, parameters and statistics, as load_weights() reads it; where the
  /// strategy trains two, the mean of both; where weights are averaged, the averages.
  /// @throws FileError  as save() does
  void export_model(std::string const& path, NonFinite non_finite = NonFinite::refused) const {
    auto const call = one_call_.begin("export_model()");
    if (replicas().are_shared(has_averages())) {
      meet("export_model()", where());
    }
    replicas().fetch(has_averages());
    if (leads()) {
      auto const own = [&](int copy) {
        return has_averages() ? as_averages(replicas().of(0, copy)) : replicas().of(0, copy);
      };
      save_parameters(path, MeanModel<T>{own(0), own(copies - 1)}.parameters(), non_finite);
    }
  }

  /// Continues where a checkpoint, a file or a folder, stopped, whatever strategy wrote it; resumes
  /// exactly if the options are the same. On an error, of whichever process, nothing has changed,
  /// and all throw the same. Of several processes each reads a share; process 0 must see it.
  void load(std::string const& path) {
    auto const call = one_call_.begin("load()", OneCall::trains);
    meet("load()");
    auto loaded = load_checkpoint<ProgramType>(workers_, options_.world, path,
                                               {.state_names = state_names(options_.optimizer),
                                                .optimizer = optimizer_name(options_.optimizer),
                                                .states = named_states<T>(graph, 0),
                                                .most = options_.batch},
                                               loaded_bytes_);
    position_ = loaded.position;
    take_states<ProgramType>(workers_, loaded.states, position_.streams);
    options_.seed = static_cast<std::uint64_t>(position_.seed);
    cursor_ = {};
    saver_.loaded(-1);
    take_loss_scale();
    detail::take_updates(graph, position_, weights_, missed_);
    workers_.run([&](RankType& rank) { rank.set_missed_steps(missed_); });
    replicas().upload();
  }

  /// Goes on from the newest complete checkpoint in the folder of TrainerOptions::checkpoints, as
  /// load() does; of several processes from the one that process 0 sees.
  ///
  ///   std::string const from = trainer.resume();  // then the epochs of the whole run
  /// @returns its path; "" where there is none, and then nothing has changed
  /// @throws FileError      it is damaged, or of another network; it is named, and may be removed
  /// @throws ContractError  there is no folder in the options
  std::string resume() {
    expects(options_.checkpoints.on(),
            "resume(): no folder is given to look in; give TrainerOptions::checkpoints a .folder");
    std::int64_t const step = [&] {
      auto const call = one_call_.begin("resume()", OneCall::trains);
      meet("resume()");
      return saver_.newest(workers_);
    }();
    if (step < 0) {
      return {};
    }
    std::string path =
        detail::in_folder(options_.checkpoints.folder, detail::checkpoint_name(step));
    load(path);
    saver_.loaded(step);
    return path;
  }

  /// What this process has read of tensors in the last load() or resume(), and got from others.
  [[nodiscard]] LoadedBytes const& loaded_bytes() const { return loaded_bytes_; }

  /// Waits for the checkpoint of TrainerOptions::checkpoints that is being written, if one is.
  /// @throws FileError  the last one was not written, and why
  void await_checkpoint() {
    auto const call = one_call_.begin("await_checkpoint()");
    saver_.await();
  }

  /// Takes the parameters and statistics of a safetensors file, and nothing else of it, from F16,
  /// BF16, F32 or F64; averages of weights are these weights, too.
  /// @param names  where the file has other names: WeightNames, such as {.prefix = "module."}, or
  ///               std::string(std::string_view), which gives the network's name
  /// @returns the names of the file's other tensors, but for those of a checkpoint
  /// @throws FileError  it lacks one, has one of another shape, a number too large, or two that
  ///                    differ where this network shares one: nothing has changed
  template <class Names = WeightNames>
  std::vector<std::string> load_weights(std::string const& path, Names const& names = {}) {
    auto const call = one_call_.begin("load_weights()", OneCall::trains);
    meet("load_weights()");
    auto loaded = replicas().load(path, [&] {
      return read_parameters(path, graph, replicas().of(0, 0), replicas().of_ranks(), names);
    });
    replicas().upload();
    return std::move(loaded.unused);
  }

  /// The parameters of replica number @p local of this process (all replicas have the same), in the
  /// network's order, whichever ranks have them, to be read: set_parameter() writes one. A gradient
  /// is that of the last step, a state one of the optimizer's. On Host these are views of the
  /// memory; on a GPU copies, good until the next call for this replica; likewise what other
  /// processes have of it, and then all of them must call it, and get the first replica's. With
  /// ShardedState all call it, gradients and states are copies until the next step, and what a step
  /// has updated elsewhere is there behind the next call. @p copy 1 is the second model, where the
  /// strategy trains two.
  [[nodiscard]] std::vector<NamedParameter<T>> parameters(int local = 0, int copy = 0) const {
    auto const call = one_call_.begin("parameters()");
    if (replicas().are_shared()) {
      meet("parameters()");
    }
    replicas().fetch();
    return replicas().of(local, copy);
  }

  /// Gives the parameter or statistic that parameters() calls @p name these numbers, in all
  /// replicas, both models where the strategy trains two, and its running average. Optimizer states
  /// stay as they are. All processes call it, with the same numbers.
  ///
  /// Cost: reads and writes the parameters and states of all devices.
  /// @throws ContractError  the network has no parameter of this name, or it has another size
  void set_parameter(std::string_view name, std::span<T const> values) {
    auto const call = one_call_.begin("set_parameter()", OneCall::trains);
    meet("set_parameter()");
    replicas().set(detail::index_to_set(graph, name, values.size()), values);
  }

  /// Memory of one rank's tensors, as planned and allocated.
  [[nodiscard]] MemoryReport memory(int rank = 0) const { return workers_.memory(rank); }

  /// The learning rate that the next step takes, of parameters whose group does not scale it.
  [[nodiscard]] double learning_rate() const { return learning_rate(position_.step); }

  /// The epochs of a run of @p count that are not trained yet: after load() from the one that was
  /// interrupted on, so that what a loop does once an epoch is done once.
  ///
  ///   trainer.resume();
  ///   for (auto epoch : trainer.epochs(10)) {
  ///     trainer.train(data.train(), epoch);
  ///     std::printf("%f\n", trainer.evaluate(data.test()).loss);
  ///   }
  /// @throws ContractError  count is negative
  [[nodiscard]] Epochs epochs(std::int64_t count) {
    cursor_ = {};
    return tandem::epochs(count, position_.epoch);
  }

  /// A Plateau whose count this trainer's checkpoints keep. After load() a program makes its
  /// Plateaus in the order in which the run that was saved made them, before load() or after it.
  /// @throws ContractError  an option is out of range, or it is the fifth
  [[nodiscard]] Plateau plateau(PlateauOptions const& plateau_options = {}) {
    expects(
        plateaus_ < position_.plateaus.size(),
        "plateau(): a trainer has at most 4, which its checkpoints keep; make each of them once, "
        "before the loop over epochs");
    return Plateau{position_.plateaus[plateaus_++], position_.step, plateau_options};
  }

  /// From the next step on @p rate stands in place of the optimizer's learning rate; schedule and
  /// groups go on to scale it. Checkpoints keep it.
  /// @throws ContractError  it is not a finite number of 0 or more
  void set_learning_rate(double rate) {
    expects(detail::is_rate(rate), "set_learning_rate(rate): give a finite number of 0 or more");
    position_.learning_rate = rate;
  }

  [[nodiscard]] TrainingPosition const& position() const { return position_; }

  /// Says where a loop of step()s stands, as checkpoints keep it: in which epoch, counted from 0,
  /// and on how many samples of it has been trained. train() does so by itself.
  /// @throws ContractError  one is negative
  void set_position(std::int64_t epoch, std::int64_t samples = 0) {
    expects(epoch >= 0 && samples >= 0, "set_position(epoch, samples): both are counted from 0");
    position_.epoch = epoch;
    position_.position = samples;
    cursor_ = {};
  }
  [[nodiscard]] TrainerOptions const& options() const { return options_; }
  [[nodiscard]] Workers& workers() { return workers_; }

 private:
  static constexpr int copies = ProgramType::map.copies;
  static constexpr bool reads_and_writes_tokens =
      is_of_criterion<LossType> && graph.node[0].limit > 0;
  // Whether a checkpoint has two models.
  static constexpr bool has_two = Replicas<ProgramType, Workers>::has_two;

  // Where the checkpoint had none, or this trainer scales no loss, training begins anew with it.
  void take_loss_scale() {
    if (!options_.loss_scaling->on() || !position_.scaling.on()) {
      position_.scaling = {.scale = static_cast<float>(options_.loss_scaling->initial)};
    }
    workers_.run([&](RankType& rank) { rank.set_loss_scale(position_.scaling); });
  }

  // Whether there are averages of the weights by now.
  [[nodiscard]] bool has_averages() const { return options_.average.on() && position_.step > 0; }

  [[nodiscard]] double learning_rate(std::int64_t step) const {
    return learning_rate_at(options_, step, position_.learning_rate);
  }

  // Whether this process is the one that prints and writes.
  [[nodiscard]] bool leads() const { return options_.world.process == 0; }

  // All processes make this call, of the same things: what they differ in is said before it begins.
  void meet(char const* call, detail::Statements const& what = {}) const {
    agree_on_call(workers_, options_.world, call, what);
  }
  [[nodiscard]] detail::Statements where() const {
    detail::Statements all;
    all.add("the number of steps done", position_.step);
    all.add("the number of epochs done", position_.epoch);
    all.add("the number of samples done of the epoch", position_.position);
    return all;
  }
  static detail::Statements of_data(std::int64_t size, WhichModel which) {
    detail::Statements all;
    all.add("the number of samples", size).add("the number of the model", static_cast<int>(which));
    return all;
  }
  // At the 1st, 2nd, 4th, ... of the program's own steps, and each 256th: a meeting takes time.
  void meet_at_some_steps(std::size_t numbers) {
    std::int64_t const step = options_.world.processes > 1 ? ++own_steps_ : 0;
    if (step % 256 == 0 ? step > 0 : (step & (step - 1)) == 0) {
      meet("step()",
           where().add("the number of inputs", numbers).add("the learning rate", learning_rate()));
    }
  }

  using Saver = CheckpointSaver<ProgramType, Workers>;
  using Batches = StepBatches<ProgramType, Used, LossType, MetricType>;
  using StepBatchType = typename Batches::Type;

  StepBatchType checked_batch(std::span<In const> x, std::span<Target const> targets,
                              Sequences const& sequences) const {
    return Batches::of(x, targets, sequences,
                       check_batch<ProgramType, LossType>(x, targets, sequences, options_.batch,
                                                          workers_.batching()));
  }

  template <Dataset D, class Watch>
  EpochResult train_epoch(D const& data, Epoch epoch, Progress const& progress,
                          Watch const& watch) {
    static_assert(TargetsFit<D, LossType>::value);
    auto const call = one_call_.begin("train()", OneCall::trains);
    meet("train()", where()
                        .add("the epoch of the call", epoch.index)
                        .add("the number of samples", static_cast<std::int64_t>(data.size()))
                        .add("the learning rate", learning_rate()));
    check_dataset<ProgramType, LossType>(data);
    first_lines_.print(progress, Computes<Used>::with(), workers_.mesh().size(), options_.world);
    return EpochLoop<Batches, Workers, Saver>{workers_, options_, position_,
                                              cursor_,  queue_,   saver_}
        .run(data, epoch, progress, watch, call);
  }

  /// Queues one step; its result comes from collect_step(), in order.
  void queue_step(StepBatchType const& batch, bool traced = false) {
    Batches::check(batch);
    queue_.push(workers_, options_, position_, batch, traced);
  }
  template <class BadSample>
  StepResult collect_step(BadSample const& bad_sample) {
    return Batches::named(queue_.pop(workers_, position_, bad_sample));
  }

  StepResult forward(StepBatchType const& batch) {
    StepState const state{.seed = options_.seed, .step = position_.step};
    return Batches::named(workers_.run([&](RankType& rank) { return rank.forward(state, batch); },
                                       WorkKind::computes));
  }

  /// f(batch) of each batch, in evaluation mode, that check(step batch) has taken.
  template <Dataset D, class Check, class F>
  void for_batches(D const& data, Check const& check, F const& f) {
    static_assert(TargetsFit<D, LossType>::value);
    check_dataset<ProgramType, LossType>(data);
    LoaderOptions order = evaluation_order(options_);
    if constexpr (ProgramType::stateful) {
      order = in_streams(order, data, false);
    }
    order.parts = parts_to_read<Batches>(workers_, options_.world.processes);
    Loader<D, In> loader{data, order};
    auto const next = [&](Batch<In, Target>& batch) {
      return with_part(workers_, order.parts, [&] {
        bool const is_one = loader.next(batch);
        if (is_one) {
          check(Batches::of(batch), loader.names(batch));
        }
        return is_one;
      });
    };
    for (Batch<In, Target> batch; next(batch);) {
      f(batch);
    }
  }

  /// f(batch, outputs) of each batch, in evaluation mode and without targets.
  template <Dataset D, class Check, class F>
  void for_outputs(D const& data, Check const& check, F const& f) {
    auto memory = zeros<T>(std::min<std::int64_t>(options_.batch, data.size()) * output.elements(),
                           "the outputs of a batch");
    for_batches(data, check, [&](Batch<In, Target> const& batch) {
      StepBatchType own = Batches::of(batch);
      own.targets = nullptr;
      own.begins = batch.first == 0;
      own.outputs = memory.data();
      forward(own);
      f(batch, std::span<T const>{memory});
    });
  }

  [[nodiscard]] auto replicas() const { return Replicas<ProgramType, Workers>{workers_}; }

  TrainerOptions options_;
  ImportedTable table_;
  TrainingPosition position_;
  std::shared_ptr<std::vector<WeightUpdates>> weights_ = detail::weights_of(graph, options_.groups);
  std::vector<std::int64_t> missed_ =
      std::vector<std::int64_t>(static_cast<std::size_t>(graph.parameters));
  LoadedBytes loaded_bytes_;
  EpochCursor cursor_;
  std::size_t plateaus_ = 0;  // that plateau() has made
  FirstLines first_lines_;
  std::int64_t own_steps_ = 0;  // of several processes
  mutable Workers workers_;
  mutable OneCall one_call_;
  StepQueue<Workers> queue_;
  mutable Saver saver_{options_};
};

}  // namespace tandem
