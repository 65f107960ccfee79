// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Predictor: a trained network put to use, without a Trainer, targets, gradients or optimizer.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/available_memory.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/graph/network.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/ops/null.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/train/checkpoint/replicas.hpp>
#include <tandem/train/checkpoint/weight_names.hpp>
#include <tandem/train/decode_network.hpp>
#include <tandem/train/generate.hpp>
#include <tandem/train/one_call.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/options/check_types.hpp>
#include <tandem/train/options/default_metric.hpp>
#include <tandem/train/options/loader_options.hpp>
#include <tandem/train/options/refused_trainer.hpp>
#include <tandem/train/predict/model_weights.hpp>
#include <tandem/train/predict/sequence_batches.hpp>
#include <tandem/train/ranks/make_rank_options.hpp>
#include <tandem/train/ranks/program_facts.hpp>
#include <tandem/train/ranks/workers_of.hpp>
#include <tandem/train/step_batches.hpp>

namespace tandem {

namespace detail {

template <bool IsNetwork>
struct PredictorArguments {
  static constexpr bool value = true;
  static_assert(IsNetwork,
                "Predictor<Net, Backend>: the first is a network, such as struct Net : "
                "Network<Image<3, 32, 32>, Sequential<...>> {}; the backend, Host or Cuda, comes "
                "second, and there is no strategy");
};

template <bool IsSame>
struct TakesFrom {
  static constexpr bool value = true;
  static_assert(IsSame,
                "Predictor::take(trainer): the trainer's network has other parameters than this "
                "one; give the Predictor the trainer's Net");
};

/// The loss of what has no targets.
struct NoLoss {
  using Target = std::int32_t;
  static constexpr std::string_view name = "";
  static constexpr int targets(Shape /*output*/) { return 1; }
};

/// Nothing of it is trained: its parameters have the same names, and its layers are the same types.
template <class Net>
struct InferenceNetwork : Network<typename Net::input, Frozen<typename Net::body>> {};

template <class Net, class Backend>
using InferenceProgram =
    Program<InferenceNetwork<Net>, SingleDevice<>,
            static_cast<int>(sizeof(typename Backend::Master)), rewrites_of<Backend>()>;

/// A layer that gives losses asks for its own.
template <class Net>
using InferenceLoss =
    std::conditional_t<unchecked_graph<Net>.output().criterion, DefaultLoss<Net>, NoLoss>;

}  // namespace detail

template <class Backend>
  requires(!std::is_same_v<Backend, Null>)
struct LossOp<detail::NoLoss, Backend> : detail::NoOp {
  using detail::NoOp::NoOp;
};

struct PredictorOptions {
  /// Samples that are computed at once, for which memory is planned; predict() takes any number. A
  /// network that ends with a Vocabulary takes one at a time.
  int batch = 128;
  /// Of a network that ends with a Vocabulary, hypotheses that translate() and search() write at
  /// once; 0: as .batch says where it has two inputs, else 1.
  int hypotheses = 0;
  int threads = 0;  ///< 0: all that the process may use
  /// How long one batch may take, or the dataset to read one sample; 0: no limit.
  std::chrono::milliseconds timeout = std::chrono::minutes{10};
  OnStall on_stall{};
  std::optional<bool> record{};  ///< as TrainerOptions::record
};

/// Computes Net's outputs on one device of Backend.
///
///   Predictor<Net, Host> predictor{"run.safetensors"};      // a checkpoint, or exported weights
///   std::vector<float> scores = predictor.predict(images);  // (N, classes), any N
///
/// The program is the Trainer's of SingleDevice, forward only, on the same ops, so that outputs
/// have the bits of Trainer::predict() for as large a batch. Memory: the parameters (packed once
/// more where the backend packs them), and of a batch the values that are still to be read. One
/// worker thread; not copyable, not movable; does one thing at a time.
/// The primary template is the error path.
template <class Net, class Backend>
class Predictor {
  static_assert(detail::PredictorArguments<detail::MayBeNetwork<Net>>::value);

 public:
  explicit Predictor(auto const&... /*arguments*/) {}
  explicit Predictor(PredictorOptions const&) {}
  std::vector<std::string> load(auto const&...) { return {}; }
  std::vector<std::string> load(std::string const&, WeightNames const&) { return {}; }
  void take(auto const&...) {}
  std::vector<float> predict(auto const&...) { return {}; }
  std::vector<std::int32_t> generate(auto const&...) { return {}; }
  std::vector<std::vector<Hypothesis>> search(auto const&...) { return {}; }
  void set_parameter(auto const&...) {}
  std::vector<NamedParameter<float>> parameters() const { return {}; }
  MemoryReport memory() const { return {}; }

 private:
  detail::NoNetwork no_network_;
};

template <class Net, class Backend>
  requires detail::IsNetwork<Net>
class Predictor<Net, Backend> {
  static_assert(detail::BackendFits<Backend>::value);
  using Used = detail::UsedBackend<Backend>;

 public:
  /// Of parameters, and of inputs and outputs.
  using T = typename Used::Master;
  using ProgramType = detail::InferenceProgram<Net, Used>;
  /// Of the network's input: T, or std::int32_t for Tokens.
  using In = InputOf<ProgramType, Used>;
  using LossType = detail::InferenceLoss<Net>;
  using Workers = detail::UsedWorkers<ProgramType, Backend, LossType, NoMetric,
                                      DefaultTransport<Used>::template type>;
  using RankType = typename Workers::RankType;
  static constexpr auto const& graph = ProgramType::network;
  static constexpr Shape input = graph.node[0].out;
  static constexpr Shape output = graph.output().out;
  /// Whether the outputs of a sample are the logits of its last row.
  static constexpr bool gives_logits = graph.output().criterion;

  /// Plans and allocates everything; load() or take() gives the parameters.
  /// @throws ContractError  an option is out of range
  explicit Predictor(PredictorOptions const& options = {})
      : options_{checked(options)},
        workers_{make_rank_options(program_facts<ProgramType>, options_, {}), stall_limit(options_),
                 options_.world} {}

  /// The same, and load(path).
  template <std::convertible_to<std::string> Path>
  explicit Predictor(Path const& path, PredictorOptions const& options = {}) : Predictor{options} {
    load(path);
  }

  Predictor(Predictor const&) = delete;
  Predictor& operator=(Predictor const&) = delete;

  /// Takes the parameters and statistics of a checkpoint, an exported model, or anyone's
  /// safetensors file, as Trainer::load_weights(): of floats of any size, under other names.
  /// @param which  of a checkpoint with averages of the weights, `average` takes them, and `first`
  ///               the weights; of one with two models, `average` takes their mean
  /// @returns the names of the file's other tensors, but for those of a checkpoint
  /// @throws FileError  as Trainer::load_weights(): nothing has changed
  template <class Names = WeightNames>
  std::vector<std::string> load(std::string const& path, WhichModel which = WhichModel::average,
                                Names const& names = {}) {
    auto const call = one_call_.begin("load()", OneCall::trains);
    auto loaded = replicas().load(
        path, [&] { return detail::read_model(path, graph, replicas().of(0), which, names); });
    replicas().upload();
    loaded_ = true;
    return std::move(loaded.unused);
  }
  /// Loads under other names, and takes averages where there are some:
  /// load(path, {.prefix = "module."}).
  template <std::invocable<std::string_view> Names = WeightNames>
  std::vector<std::string> load(std::string const& path, Names const& names) {
    return load(path, WhichModel::average, names);
  }

  /// Copies what a trainer of this network has by now, whatever its strategy, backend and precision
  /// are; a number of more bits is rounded to nearest.
  /// @param which  as in load()
  template <class TrainerType>
  void take(TrainerType const& trainer, WhichModel which = WhichModel::average) {
    static_assert(detail::TakesFrom<sameness<TrainerType>()>::value);
    if constexpr (sameness<TrainerType>()) {
      auto const call = one_call_.begin("take()", OneCall::trains);
      detail::copy_model(trainer, replicas().of(0), which);
      replicas().upload();
      loaded_ = true;
    }
  }

  /// The network's outputs in evaluation mode, for any number of samples.
  ///
  /// Shapes: x (N, input); returns (N, output). Of sequences x may have fewer rows, .time, as may
  ///         the outputs then; behind a sample's end, its .lengths, outputs are of no meaning. A
  ///         network that ends with a Vocabulary gives (N, V): the logits of the row that ends each
  ///         sample.
  /// @throws ContractError  x is no whole samples, or an index or a length is out of range
  std::vector<T> predict(std::span<In const> x, Sequences const& sequences = {}) {
    std::vector<T> outputs =
        zeros<T>(samples_of(x, sequences) * output_elements(sequences), "predict(x)");
    predict(x, std::span<T>{outputs}, sequences);
    return outputs;
  }

  /// The same into memory of the caller's; nothing is allocated.
  /// @throws ContractError  outputs has another size, too
  void predict(std::span<In const> x, std::span<T> outputs, Sequences const& sequences = {}) {
    auto const call = one_call_.begin("predict()");
    Batches const batches{x, sequences, samples_of(x, sequences)};
    std::int64_t const each = output_elements(sequences);
    expects(static_cast<std::int64_t>(outputs.size()) == batches.samples() * each,
            "predict(x, outputs): outputs must have room for the network's output of each sample");
    for (std::int64_t first = 0; first < batches.samples(); first += at_once()) {
      forward(batches.of(first, at_once()), outputs.data() + first * each, {.first = first});
    }
  }

  /// Of a dataset, in its order and without random augmentation; its targets are not looked at.
  /// Shapes: data (N, input); returns (N, output), zeros behind the longest sequence of a batch.
  template <Dataset D>
  std::vector<T> predict(D const& data) {
    auto const call = one_call_.begin("predict()");
    check_inputs(data);
    std::int64_t const each = gives_logits ? graph.output().limit : output.elements();
    auto outputs = zeros<T>(data.size() * each, "predict(data)");
    auto memory = zeros<T>(std::min<std::int64_t>(at_once(), data.size()) * each, "predict()");
    LoaderOptions order = evaluation_order(options_);
    order.batch = at_once();
    Loader<D, In> loader{data, order};
    for (tandem::Batch<In, typename D::Target> batch; loader.next(batch);) {
      forward({.x = batch.x,
               .size = batch.size,
               .time = batch.time,
               .lengths = batch.lengths,
               .second = {batch.second, batch.second_time, batch.second_lengths}},
              memory.data(), loader.names(batch));
      std::int64_t const made =
          gives_logits ? each : output.elements(output.clock == 0 ? batch.time : batch.second_time);
      for (std::int64_t s = 0; s < batch.size; ++s) {
        std::copy_n(memory.begin() + s * made, made, outputs.begin() + (batch.first + s) * each);
      }
    }
    return outputs;
  }

  /// Writes on behind @p prompt, as Trainer::generate().
  /// @throws ContractError  the prompt is empty, has a token out of range, or an option is
  std::vector<std::int32_t> generate(std::span<std::int32_t const> prompt,
                                     GenerateOptions const& generate_options = {}) {
    static_assert(detail::Generates<writes_tokens,
                                    detail::looks_back_only(Leaves<typename Net::body>{})>::value);
    auto const call = one_call_.begin("generate()");
    if constexpr (!writes_tokens) {
      return {};
    } else {
      check_indices(prompt, 0, graph.node[0].limit, 0, "token");
      return generate_tokens(
          prompt, generate_options, input[0], graph.output().limit,
          [&](std::span<std::int32_t const> tokens, int position, std::span<float> logits) {
            run({.x = tokens.data(),
                 .size = 1,
                 .time = static_cast<int>(tokens.size()),
                 .position = position,
                 .scores = logits.data()});
          });
    }
  }

  /// The likeliest texts by beam search, as Trainer::search().
  /// @throws ContractError  likewise
  std::vector<std::vector<Hypothesis>> search(DecodeTask const& task, Beam const& beam = {}) {
    static_assert(detail::Searches<Net, writes_tokens, ProgramType>::value);
    auto const call = one_call_.begin("search()");
    if constexpr (!writes_tokens) {
      return {};
    } else {
      for (auto const& source : task.sources) {
        check_indices(source, 0, graph.node[0].limit, 0, "token");
      }
      return detail::decode(
          detail::decode_sizes(workers_.facts(), options_.batch, workers_.batching()), task, beam,
          [&](detail::DecodeCall const& rows) { run(detail::step_of<Batch>(rows)); });
    }
  }

  /// Gives the parameter or statistic that parameters() calls @p name these numbers.
  /// @throws ContractError  the network has no parameter of this name, or it has another size
  void set_parameter(std::string_view name, std::span<T const> values) {
    auto const call = one_call_.begin("set_parameter()", OneCall::trains);
    replicas().set(detail::index_to_set(graph, name, values.size()), values);
  }

  /// The parameters in the network's order, to be read: on Host views of the memory, on a GPU
  /// copies.
  [[nodiscard]] std::vector<NamedParameter<T>> parameters() const {
    auto const call = one_call_.begin("parameters()");
    return replicas().of(0);
  }
  /// Memory of the device's tensors, as planned and allocated.
  [[nodiscard]] MemoryReport memory() const { return workers_.memory(0); }

 private:
  // Samples of a batch; logits are of one, whose last row it is.
  [[nodiscard]] int at_once() const { return gives_logits ? 1 : options_.batch; }

  static constexpr bool writes_tokens = gives_logits && graph.node[0].limit > 0;
  using Batch = typename Workers::Batch;
  using Batches = detail::SequenceBatches<ProgramType, Batch>;
  using Checks = StepBatches<ProgramType, Used, LossType, NoMetric>;

  template <class TrainerType>
  static constexpr bool sameness() {
    constexpr auto const& other = TrainerType::graph;
    bool same = other.parameters == graph.parameters && other.nodes == graph.nodes;
    for (int p = 0; same && p < graph.parameters; ++p) {
      same = other.parameter[p].parameter.shape == graph.parameter[p].parameter.shape;
    }
    return same;
  }

  static TrainerOptions checked(PredictorOptions const& options) {
    expects(options.batch >= 1, "PredictorOptions: .batch must be 1 or more");
    expects(options.threads >= 0, "PredictorOptions: .threads must be 0 or more");
    expects(options.timeout.count() >= 0, "PredictorOptions: .timeout must be 0 or more");
    expects(options.hypotheses >= 0, "PredictorOptions: .hypotheses must be 0 or more");
    int const written = options.hypotheses > 0     ? options.hypotheses
                        : reads_two<ProgramType>() ? options.batch
                                                   : 1;
    return {.batch = gives_logits ? written : options.batch,
            .threads_per_device = options.threads,
            .timeout = options.timeout,
            .on_stall = options.on_stall,
            .record = options.record};
  }

  static std::int64_t samples_of(std::span<In const> x, Sequences const& sequences) {
    std::int64_t const each =
        input.elements(sequences.time > 0 || !input.timed ? sequences.time : input[0]);
    return each > 0 ? static_cast<std::int64_t>(x.size()) / each : 0;
  }
  static std::int64_t output_elements(Sequences const& sequences) {
    int const time = output.clock == 0 ? sequences.time : sequences.second_time;
    return gives_logits                ? graph.output().limit
           : output.timed && time == 0 ? output.elements()
                                       : output.elements(time);
  }

  template <class D>
  static void check_inputs(D const& data) {
    static_assert(PairDataset<D> == input_shape<ProgramType>(1).valid(),
                  "Predictor: a network on Inputs<A, B> takes a dataset with second_shape(), "
                  "second_length(index) and read(index, x, second, y), and no other network does");
    if (data.shape() != input) {
      throw ContractError{"the dataset has samples of " + to_string(data.shape()) +
                          ", but the network takes " + to_string(input) +
                          "; augment(data, PadTo{...}) changes a sample's shape"};
    }
  }

  // Writes the outputs, or logits, of a batch.
  void forward(Batch batch, T* outputs, SampleNames const& names) {
    Checks::check_input(batch, names);
    if constexpr (gives_logits) {
      score(batch, outputs);
    } else {
      batch.outputs = outputs;
      run(batch);
    }
  }

  // Logits, of one sample without the rows behind its end, whose last row is the one that counts.
  void score(Batch batch, T* outputs) {
    batch.time = batch.lengths != nullptr ? *batch.lengths : batch.time;
    batch.lengths = nullptr;
    if (batch.second.lengths != nullptr) {
      batch.second.time = *batch.second.lengths;
      batch.second.lengths = nullptr;
    }
    if constexpr (std::is_same_v<T, float>) {
      batch.scores = outputs;
      run(batch);
    } else {
      std::vector<float> logits(static_cast<std::size_t>(graph.output().limit));
      batch.scores = logits.data();
      run(batch);
      std::copy(logits.begin(), logits.end(), outputs);
    }
  }

  void run(Batch batch) {
    batch.begins = true;
    expects(loaded_ || graph.parameters == 0,
            "Predictor: it has no parameters yet: give load(path), or take(trainer)");
    workers_.run([&](RankType& rank) { return rank.forward({}, batch); }, WorkKind::computes);
  }

  [[nodiscard]] auto replicas() const { return Replicas<Batch>{workers_}; }

  TrainerOptions options_;
  mutable Workers workers_;
  mutable OneCall one_call_;
  bool loaded_ = false;
};

}  // namespace tandem
