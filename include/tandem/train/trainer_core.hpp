// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TrainerCore: what a Trainer does whatever its network and strategy are, compiled once for each
/// type of steps.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/available_memory.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/function_ref.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/train/agreement.hpp>
#include <tandem/train/checkpoint/checkpoint.hpp>
#include <tandem/train/checkpoint/load_weights.hpp>
#include <tandem/train/checkpoint/processes/load.hpp>
#include <tandem/train/checkpoint/processes/outline.hpp>
#include <tandem/train/checkpoint/replicas.hpp>
#include <tandem/train/checkpoint/saver.hpp>
#include <tandem/train/checkpoint/states.hpp>
#include <tandem/train/checkpoint/two_models.hpp>
#include <tandem/train/data_source.hpp>
#include <tandem/train/epoch_cursor.hpp>
#include <tandem/train/epoch_loop.hpp>
#include <tandem/train/one_call.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/options/check_rates.hpp>
#include <tandem/train/options/loader_options.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/over_processes.hpp>
#include <tandem/train/parameters.hpp>
#include <tandem/train/plateau.hpp>
#include <tandem/train/progress.hpp>
#include <tandem/train/ranks/stand_in.hpp>
#include <tandem/train/ranks/step_queue.hpp>
#include <tandem/train/ranks/trace.hpp>
#include <tandem/train/ranks/worker_group.hpp>
#include <tandem/train/step_batches.hpp>
#include <tandem/train/step_report.hpp>

namespace tandem {

/// The part of a Trainer that is the same for all networks and strategies.
/// @tparam StepType  StepBatch
template <class StepType>
class TrainerCore {
 public:
  /// Of parameters and of the data that the caller passes.
  using T = typename StepType::Scalar;
  using Target = typename StepType::TargetType;
  /// Of the network's input: T, or std::int32_t for Tokens.
  using In = typename StepType::Input;
  using Group = WorkerGroup<StepType>;
  using RankType = typename Group::RankType;

  TrainerCore(TrainerCore const&) = delete;
  TrainerCore& operator=(TrainerCore const&) = delete;

  /// Writes parameters, optimizer state and position; see train/checkpoint/checkpoint.hpp for the
  /// format. Of several processes the first writes, and all must call it, since each has the states
  /// of its samples, or some devices of a replica. Also after a rank has failed, unless in an
  /// update; or a replica is in several processes, or has its part of the states (ShardedState).
  /// @throws FileError  it cannot be written, or has inf or nan; the file there is untouched
  void save(std::string const& path, NonFinite non_finite = NonFinite::refused) const;

  /// Writes a checkpoint as a folder, `<folder>/step-000420`, which appears whole or not at all;
  /// one of this step is replaced, no other touched. All processes call it, and each writes its
  /// share of the tensors; of one process also after a rank has failed, as save().
  /// @returns its path, in every process
  /// @throws FileError  it cannot be written, or has inf or nan; what was complete is untouched
  std::string save_in(std::string const& folder, NonFinite non_finite = NonFinite::refused) const;

  /// Writes the trained model, parameters and statistics, as load_weights() reads it; where the
  /// strategy trains two, the mean of both; where weights are averaged, the averages.
  /// @throws FileError  as save() does
  void export_model(std::string const& path, NonFinite non_finite = NonFinite::refused) const;

  /// Continues where a checkpoint, a file or a folder, stopped, whatever strategy wrote it; resumes
  /// exactly if the options are the same. On an error, of whichever process, nothing has changed,
  /// and all throw the same. Of several processes each reads a share; process 0 must see it.
  void load(std::string const& path);

  /// Goes on from the newest complete checkpoint in the folder of TrainerOptions::checkpoints, as
  /// load() does; of several processes from the one that process 0 sees.
  ///
  ///   std::string const from = trainer.resume();  // then the epochs of the whole run
  /// @returns its path; "" where there is none, and then nothing has changed
  /// @throws FileError      it is damaged, or of another network; it is named, and may be removed
  /// @throws ContractError  there is no folder in the options
  std::string resume();

  /// What this process has read of tensors in the last load() or resume(), and got from others.
  [[nodiscard]] LoadedBytes const& loaded_bytes() const { return loaded_bytes_; }

  /// Waits for the checkpoint of TrainerOptions::checkpoints that is being written, if one is.
  /// @throws FileError  the last one was not written, and why
  void await_checkpoint() {
    auto const call = one_call_.begin("await_checkpoint()");
    saver_.await();
  }

  /// The parameters of replica number @p local of this process (all replicas have the same), in the
  /// network's order, whichever ranks have them, to be read: set_parameter() writes one. A gradient
  /// is that of the last step, a state one of the optimizer's. On Host these are views of the
  /// memory; on a GPU copies, good until the next call for this replica; likewise what other
  /// processes have of it, and then all of them must call it, and get the first replica's. With
  /// ShardedState all call it, gradients and states are copies until the next step, and what a step
  /// has updated elsewhere is there behind the next call. @p copy 1 is the second model, where the
  /// strategy trains two.
  [[nodiscard]] std::vector<NamedParameter<T>> parameters(int local = 0, int copy = 0) const;

  /// Gives the parameter or statistic that parameters() calls @p name these numbers, in all
  /// replicas, both models where the strategy trains two, and its running average. Optimizer states
  /// stay as they are. All processes call it, with the same numbers.
  ///
  /// Cost: reads and writes the parameters and states of all devices.
  /// @throws ContractError  the network has no parameter of this name, or it has another size
  void set_parameter(std::string_view name, std::span<T const> values);

  /// Memory of one rank's tensors, as planned and allocated.
  [[nodiscard]] MemoryReport memory(int rank = 0) const { return workers_->memory(rank); }

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
  [[nodiscard]] Plateau plateau(PlateauOptions const& plateau_options = {});

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
  void set_position(std::int64_t epoch, std::int64_t samples = 0);

  [[nodiscard]] TrainerOptions const& options() const { return options_; }

  /// The states of Stateful layers become 0: the next step's samples begin. train() does so by
  /// itself where an epoch begins; without such layers this does nothing.
  void reset_state();

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
      return read_parameters(path, network(), replicas().of(0, 0), replicas().of_ranks(), names);
    });
    replicas().upload();
    return std::move(loaded.unused);
  }

 protected:
  using Data = DataSource<In, Target>;
  using DataBatch = Batch<In, Target>;
  using MakeGroup = FunctionRef<std::unique_ptr<Group>(TrainerOptions const&)>;
  using Check = void (*)(StepType const&, SampleNames const&);
  using Watch = typename EpochLoop<StepType>::Watch;

  /// Plans and allocates everything, and sets the initial parameters.
  /// @param facts    outlives this
  /// @param options  checked
  /// @param make     makes the ranks of these options
  TANDEM_COLD TrainerCore(StepFacts<StepType> const& facts, TrainerOptions options, MakeGroup make);
  TANDEM_COLD ~TrainerCore() {}  // defaulted, each unit would compile it

  /// @param watch  null: nobody watches
  EpochResult train_on(Data& data, Epoch epoch, Progress const& progress, Watch const* watch);
  Evaluation evaluate_on(Data& data, WhichModel which);
  std::vector<float> predict_on(Data& data, WhichModel which);

  /// f(batch, outputs) of each batch, in evaluation mode and without targets.
  void for_outputs(Data& data, Check check,
                   FunctionRef<void(DataBatch const&, std::span<T const>)> f);

  /// Queues one step and collects its result.
  StepResult step_on(StepType const& batch, FunctionRef<std::string()> bad_sample,
                     bool traced = false);

  StepResult forward(StepType const& batch);

  // All processes make this call, of the same things: what they differ in is said before it begins.
  void meet(char const* call, detail::CallNumbers const& what = {}) const {
    workers_->meet(options_.world, call, what);
  }
  static detail::CallNumbers of_data(std::int64_t size, WhichModel which);
  // At the 1st, 2nd, 4th, ... of the program's own steps, and each 256th: a meeting takes time.
  void meet_at_some_steps(std::size_t numbers);

  // For evaluations: two models that may differ, or averages.
  [[nodiscard]] StandIn<StepType> stand_in(WhichModel which) const {
    return {*workers_, which, workers_->facts().two_models() || has_averages()};
  }
  [[nodiscard]] Group& group() const { return *workers_; }
  [[nodiscard]] OneCall& one_call() const { return one_call_; }

 private:
  [[nodiscard]] GraphView network() const { return workers_->facts().tables().network; }

  // f(batch) of each batch, in evaluation mode, that check(step batch) has taken.
  void for_batches(Data& data, Check check, FunctionRef<void(DataBatch const&)> f);

  // Where the checkpoint had none, or this trainer scales no loss, training begins anew with it.
  void take_loss_scale();

  // Whether there are averages of the weights by now.
  [[nodiscard]] bool has_averages() const { return options_.average.on() && position_.step > 0; }

  [[nodiscard]] double learning_rate(std::int64_t step) const {
    return learning_rate_at(options_, step, position_.learning_rate);
  }

  // Whether this process is the one that prints and writes.
  [[nodiscard]] bool leads() const { return options_.world.process == 0; }

  [[nodiscard]] detail::CallNumbers where() const;

  [[nodiscard]] Replicas<StepType> replicas() const { return Replicas<StepType>{*workers_}; }

  StepFacts<StepType> const& facts_;
  TrainerOptions options_;
  TrainingPosition position_;
  std::unique_ptr<Group> workers_;
  std::shared_ptr<std::vector<WeightUpdates>> weights_ =
      detail::weights_of(network(), options_.groups);
  std::vector<std::int64_t> missed_ =
      std::vector<std::int64_t>(static_cast<std::size_t>(network().parameters));
  LoadedBytes loaded_bytes_;
  EpochCursor cursor_;
  std::size_t plateaus_ = 0;  // that plateau() has made
  FirstLines first_lines_;
  std::int64_t own_steps_ = 0;  // of several processes
  mutable OneCall one_call_;
  StepQueue<StepType> queue_{workers_->steps_in_flight()};
  mutable CheckpointSaver saver_{options_};
};

template <class StepType>
TrainerCore<StepType>::TrainerCore(StepFacts<StepType> const& facts, TrainerOptions options,
                                   MakeGroup make)
    : facts_{facts}, options_{std::move(options)}, workers_{make(options_)} {
  position_.seed = static_cast<std::int64_t>(options_.seed);
  position_.scaling.scale = static_cast<float>(options_.loss_scaling->initial);
  position_.weights = weights_;
  for (auto const& rank : replicas().of_ranks()) {
    for (NamedParameter<T> const& own : rank) {
      initialize<T>(network().parameter[own.index].parameter, own.owner, options_.seed,
                    detail::writable(own.value));
      for (std::size_t s = 0; s < own.states.size(); ++s) {
        std::ranges::fill(detail::writable(own.states[s]),
                          static_cast<T>(initial_state(options_.optimizer, s)));
      }
    }
  }
  replicas().upload();
}

template <class StepType>
void TrainerCore<StepType>::save(std::string const& path, NonFinite non_finite) const {
  auto const call = one_call_.begin("save()");
  if (workers_->facts().tables().stateful || replicas().are_shared()) {
    meet("save()", where());
  }
  auto const states = states_of(*workers_, position_.streams, options_.world.processes);
  replicas().fetch();
  if (!leads()) {
    return;
  }
  save_checkpoint(path, replicas().whole(), state_names(options_.optimizer), position_,
                  optimizer_name(options_.optimizer), non_finite, states);
}

template <class StepType>
std::string TrainerCore<StepType>::save_in(std::string const& folder, NonFinite non_finite) const {
  auto const call = one_call_.begin("save_in()");
  meet("save_in()", where());
  SavedWorkers<StepType> ranks{*workers_};
  return saver_.save_in(folder, ranks, position_, non_finite);
}

template <class StepType>
void TrainerCore<StepType>::export_model(std::string const& path, NonFinite non_finite) const {
  auto const call = one_call_.begin("export_model()");
  if (replicas().are_shared(has_averages())) {
    meet("export_model()", where());
  }
  replicas().fetch(has_averages());
  if (leads()) {
    auto const own = [&](int copy) {
      return has_averages() ? as_averages(replicas().of(0, copy)) : replicas().of(0, copy);
    };
    save_parameters(
        path, MeanModel<T>{own(0), own(workers_->facts().tables().map.copies - 1)}.parameters(),
        non_finite);
  }
}

template <class StepType>
void TrainerCore<StepType>::load(std::string const& path) {
  auto const call = one_call_.begin("load()", OneCall::trains);
  meet("load()");
  auto loaded = load_checkpoint(*workers_, options_.world, path,
                                {.state_names = state_names(options_.optimizer),
                                 .optimizer = optimizer_name(options_.optimizer),
                                 .states = named_states<T>(network(), 0),
                                 .most = options_.batch},
                                loaded_bytes_);
  position_ = loaded.position;
  take_states(*workers_, loaded.states, position_.streams);
  options_.seed = static_cast<std::uint64_t>(position_.seed);
  cursor_ = {};
  saver_.loaded(-1);
  take_loss_scale();
  detail::take_updates(network(), position_, weights_, missed_);
  workers_->run([&](RankType& rank) { rank.set_missed_steps(missed_); });
  replicas().upload();
}

template <class StepType>
std::string TrainerCore<StepType>::resume() {
  expects(options_.checkpoints.on(),
          "resume(): no folder is given to look in; give TrainerOptions::checkpoints a .folder");
  std::int64_t const step = [&] {
    auto const call = one_call_.begin("resume()", OneCall::trains);
    meet("resume()");
    SavedWorkers<StepType> ranks{*workers_};
    return saver_.newest(ranks);
  }();
  if (step < 0) {
    return {};
  }
  std::string path = detail::in_folder(options_.checkpoints.folder, detail::checkpoint_name(step));
  load(path);
  saver_.loaded(step);
  return path;
}

template <class StepType>
std::vector<NamedParameter<typename StepType::Scalar>> TrainerCore<StepType>::parameters(
    int local, int copy) const {
  auto const call = one_call_.begin("parameters()");
  if (replicas().are_shared()) {
    meet("parameters()");
  }
  replicas().fetch();
  return replicas().of(local, copy);
}

template <class StepType>
void TrainerCore<StepType>::set_parameter(std::string_view name, std::span<T const> values) {
  auto const call = one_call_.begin("set_parameter()", OneCall::trains);
  meet("set_parameter()");
  replicas().set(detail::index_to_set(network(), name, values.size()), values);
}

template <class StepType>
Plateau TrainerCore<StepType>::plateau(PlateauOptions const& plateau_options) {
  expects(plateaus_ < position_.plateaus.size(),
          "plateau(): a trainer has at most 4, which its checkpoints keep; make each of them once, "
          "before the loop over epochs");
  return Plateau{position_.plateaus[plateaus_++], position_.step, plateau_options};
}

template <class StepType>
void TrainerCore<StepType>::set_position(std::int64_t epoch, std::int64_t samples) {
  expects(epoch >= 0 && samples >= 0, "set_position(epoch, samples): both are counted from 0");
  position_.epoch = epoch;
  position_.position = samples;
  cursor_ = {};
}

template <class StepType>
void TrainerCore<StepType>::reset_state() {
  auto const call = one_call_.begin("reset_state()", OneCall::trains);
  if (workers_->facts().tables().stateful) {
    meet("reset_state()");
    workers_->run([](RankType& rank) { rank.reset_states(); });
    position_.streams = 0;
  }
}

template <class StepType>
EpochResult TrainerCore<StepType>::train_on(Data& data, Epoch epoch, Progress const& progress,
                                            Watch const* watch) {
  auto const call = one_call_.begin("train()", OneCall::trains);
  meet("train()", where()
                      .add("the epoch of the call", epoch.index)
                      .add("the number of samples", data.size())
                      .add("the learning rate", learning_rate()));
  check_samples(data.shapes(), facts_.wanted, facts_.output);
  first_lines_.print(progress, facts_.computes_with(), workers_->mesh().size(), options_.world);
  return EpochLoop<StepType>{facts_, *workers_, options_, position_, cursor_, queue_, saver_}.run(
      data, epoch, progress, watch, call);
}

template <class StepType>
Evaluation TrainerCore<StepType>::evaluate_on(Data& data, WhichModel which) {
  auto const call = one_call_.begin("evaluate()");
  meet("evaluate()", of_data(data.size(), which));
  auto const other = stand_in(which);
  expects(data.size() > 0, "evaluate(data): there are no samples, so no mean over them");
  Evaluation sum;
  for_batches(data, facts_.check, [&](DataBatch const& batch) {
    auto own = step_of<StepType>(batch);
    own.begins = batch.first == 0;
    add(sum, forward(own));
  });
  expects(sum.weight > 0.0,
          "evaluate(data): no sample has a target that counts, so there is no mean over them");
  return mean(sum);
}

template <class StepType>
std::vector<float> TrainerCore<StepType>::predict_on(Data& data, WhichModel which) {
  auto const call = one_call_.begin("predict()");
  meet("predict()", of_data(data.size(), which));
  auto const other = stand_in(which);
  Shape const& output = facts_.output;
  std::int64_t const each = output.elements();
  auto outputs = zeros<float>(data.size() * each, "predict(data)");
  for_outputs(data, facts_.check_input, [&](DataBatch const& batch, std::span<T const> memory) {
    std::int64_t const made = output.elements(output.clock == 0 ? batch.time : batch.second_time);
    for_own_samples(*workers_, batch.size, [&](std::int64_t s) {
      std::copy_n(memory.begin() + s * made, made, outputs.begin() + (batch.first + s) * each);
    });
  });
  if (options_.world.processes > 1) {
    add_over_processes(*workers_, std::span{outputs});
  }
  return outputs;
}

template <class StepType>
void TrainerCore<StepType>::for_batches(Data& data, Check check,
                                        FunctionRef<void(DataBatch const&)> f) {
  check_samples(data.shapes(), facts_.wanted, facts_.output);
  LoaderOptions order = evaluation_order(options_);
  if (workers_->facts().tables().stateful) {
    order = data.in_streams(order, false);
  }
  order.parts = parts_to_read(*workers_, facts_.in_parts, options_.world.processes);
  BatchLoader<typename StepType::Input, typename StepType::TargetType> loader{data, order};
  auto const next = [&](DataBatch& batch) {
    return with_part(*workers_, order.parts, [&] {
      bool const is_one = loader.next(batch);
      if (is_one) {
        check(step_of<StepType>(batch), loader.names(batch));
      }
      return is_one;
    });
  };
  for (DataBatch batch; next(batch);) {
    f(batch);
  }
}

template <class StepType>
void TrainerCore<StepType>::for_outputs(Data& data, Check check,
                                        FunctionRef<void(DataBatch const&, std::span<T const>)> f) {
  auto memory =
      zeros<T>(std::min<std::int64_t>(options_.batch, data.size()) * facts_.output.elements(),
               "the outputs of a batch");
  for_batches(data, check, [&](DataBatch const& batch) {
    auto own = step_of<StepType>(batch);
    own.targets = nullptr;
    own.begins = batch.first == 0;
    own.outputs = memory.data();
    forward(own);
    f(batch, std::span<T const>{memory});
  });
}

template <class StepType>
StepResult TrainerCore<StepType>::step_on(StepType const& batch,
                                          FunctionRef<std::string()> bad_sample, bool traced) {
  facts_.check(batch, {});
  queue_.push(*workers_, options_, position_, batch, traced);
  return facts_.named(queue_.pop(*workers_, position_, bad_sample));
}

template <class StepType>
StepResult TrainerCore<StepType>::forward(StepType const& batch) {
  StepState const state{.seed = options_.seed, .step = position_.step};
  return facts_.named(workers_->run([&](RankType& rank) { return rank.forward(state, batch); },
                                    WorkKind::computes));
}

template <class StepType>
detail::CallNumbers TrainerCore<StepType>::of_data(std::int64_t size, WhichModel which) {
  return detail::CallNumbers{}
      .add("the number of samples", size)
      .add("the number of the model", static_cast<int>(which));
}

template <class StepType>
void TrainerCore<StepType>::meet_at_some_steps(std::size_t numbers) {
  std::int64_t const step = options_.world.processes > 1 ? ++own_steps_ : 0;
  if (step % 256 == 0 ? step > 0 : (step & (step - 1)) == 0) {
    meet("step()",
         where().add("the number of inputs", numbers).add("the learning rate", learning_rate()));
  }
}

template <class StepType>
void TrainerCore<StepType>::take_loss_scale() {
  if (!options_.loss_scaling->on() || !position_.scaling.on()) {
    position_.scaling = {.scale = static_cast<float>(options_.loss_scaling->initial)};
  }
  workers_->run([&](RankType& rank) { rank.set_loss_scale(position_.scaling); });
}

template <class StepType>
detail::CallNumbers TrainerCore<StepType>::where() const {
  return detail::CallNumbers{}
      .add("the number of steps done", position_.step)
      .add("the number of epochs done", position_.epoch)
      .add("the number of samples done of the epoch", position_.position);
}

}  // namespace tandem
