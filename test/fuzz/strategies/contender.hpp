// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Contender: a trainer whose network and strategy are forgotten, so that what compares two of them
/// is compiled once; and Entry, which makes them: entry() of a strategy that is a type, and
/// value_entry() of one that is a value, whose trainer is compiled once for all strategies of a
/// network.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tandem/any_strategy.hpp>
#include <tandem/tandem.hpp>
#if defined(TANDEM_CUDA_EMULATED)
#include <tandem/cuda.cuh>
#endif

#include <asynchronous_reference.hpp>
#include <stage_model.hpp>

#include "kernels.hpp"
#include "processes.hpp"
#include "samples.hpp"
#include "tardy_transport.hpp"

namespace tandem::fuzz {

/// What is compared of a trainer.
template <class T>
class Contender {
 public:
  Contender() = default;
  Contender(Contender const&) = delete;
  Contender& operator=(Contender const&) = delete;
  virtual ~Contender() = default;

  virtual StepResult step(Samples<T> const& samples) = 0;
  /// The mean loss of the first epoch.
  virtual double train(Data const& data) = 0;
  virtual std::vector<NamedParameter<T>> parameters(int replica, int copy) = 0;
  /// @param which  first: of weights where there are averages
  virtual Evaluation evaluate(Data const& data, WhichModel which = WhichModel::average) = 0;
  /// A network of tokens writes on behind the first texts; nothing where it cannot.
  virtual std::vector<float> predict(Data const& data) = 0;
  /// "" if each token that it writes behind @p text is the likeliest by the losses of all tokens.
  virtual std::string check_written(std::vector<std::int32_t> text) = 0;
  virtual void save(std::string const& path) = 0;
  virtual void load(std::string const& path) = 0;
  [[nodiscard]] virtual MemoryReport memory(int rank) = 0;
};

/// Tardy threads, or processes; of emulated GPUs, ranks on one of them.
template <class Backend>
struct TransportOf {
  template <int Ranks>
  using type = TardyTransport<typename DefaultTransport<Backend>::template type<Ranks>>;
};
#if defined(TANDEM_CUDA_EMULATED)
template <class Kernels, class Precision>
struct TransportOf<BasicCuda<Kernels, Precision>> {
  template <int Ranks>
  using type = VirtualTransport<Ranks>;
};
#endif

/// What a backend computes with, also one that is named together with what connects it.
template <class Backend>
using MasterOf = typename tandem::detail::ComputingBackend<Backend>::Master;

/// What a network's trainers make of its outputs: `loss` and `metric` of it, or the defaults.
template <class Net>
struct Choices {
  using Loss = DefaultLoss<Net>;
  using Metric = DefaultMetric<Loss>;
};
template <class Net>
  requires requires { typename Net::loss; }
struct Choices<Net> {
  using Loss = typename Net::loss;
  using Metric = typename Net::metric;
};

/// @tparam S  a strategy, or AnyStrategy, of which the constructor is told the value
template <class Net, class S, class Backend>
class TrainerContender final : public Contender<MasterOf<Backend>> {
 public:
  using T = MasterOf<Backend>;
  template <class... Value>
  explicit TrainerContender(TrainerOptions const& options, Value const&... value)
      : trainer_{value..., options} {}

  StepResult step(Samples<T> const& samples) override {
    if constexpr (of_tokens) {
      return trainer_.step(samples.tokens, samples.y, samples.sequences);
    } else if constexpr (is_soft) {
      std::vector<float> shares(samples.y.size() * classes);
      for (std::size_t s = 0; s < samples.y.size(); ++s) {
        auto const label = static_cast<std::size_t>(samples.y[s]);
        shares[s * classes + label] += 0.75F;
        shares[s * classes + (label + 1) % classes] += 0.25F;
      }
      return trainer_.step(samples.x, shares);
    } else {
      return trainer_.step(samples.x, samples.y);
    }
  }
  double train(Data const& data) override {
    return with(data, [&](auto const& samples) { return trainer_.train(samples, 0).loss; });
  }
  std::vector<NamedParameter<T>> parameters(int replica, int copy) override {
    return trainer_.parameters(replica, copy);
  }
  Evaluation evaluate(Data const& data, WhichModel which) override {
    if (none_counts(of_tokens ? data.texts.y : data.labels)) {
      return {};  // which is refused
    }
    return with(data, [&](auto const& samples) { return trainer_.evaluate(samples, which); });
  }
  std::vector<float> predict(Data const& data) override {
    if constexpr (!has_targets_of_rows) {
      return with(data, [&](auto const& samples) { return trainer_.predict(samples); });
    } else {
      std::vector<float> all;
      if constexpr (requires { Net::generates; }) {
        for (std::int64_t i = 0; i < std::min<std::int64_t>(2, data.texts.size()); ++i) {
          auto const prompt =
              std::span{data.texts.tokens}.subspan(static_cast<std::size_t>(i * data.texts.longest),
                                                   static_cast<std::size_t>(data.texts.length(i)));
          auto const written = trainer_.generate(
              prompt, {.tokens = data.texts.longest + 2, .temperature = i == 0 ? 0.0 : 1.0});
          all.insert(all.end(), written.begin(), written.end());
        }
      }
      return all;
    }
  }
  std::string check_written(std::vector<std::int32_t> text) override {
    if constexpr (requires { Net::generates; }) {
      int const longest = graph<Net>.node[0].out[0];
      auto const written = trainer_.generate(
          text, {.tokens = longest + 1 - static_cast<int>(text.size()), .temperature = 0.0});
      for (std::int32_t const token : written) {
        std::vector<double> losses;
        for (std::int32_t next = 0; next < graph<Net>.output().limit; ++next) {
          losses.push_back(loss_of(text, next, longest));
        }
        double const own = losses[static_cast<std::size_t>(token)];
        double const least = *std::min_element(losses.begin(), losses.end());
        if (!(own <= least + 1e-9)) {
          return "token " + std::to_string(text.size()) + " of a text is written, though its " +
                 "loss is " + std::to_string(own) + " and another's " + std::to_string(least);
        }
        text.push_back(token);
      }
    }
    return "";
  }
  void save(std::string const& path) override { trainer_.save(path); }
  void load(std::string const& path) override { trainer_.load(path); }
  [[nodiscard]] MemoryReport memory(int rank) override { return trainer_.memory(rank); }

 private:
  static constexpr bool of_tokens = graph<Net>.node[0].limit > 0;
  static constexpr bool has_targets_of_rows = graph<Net>.output().criterion;
  using LossType = typename Choices<Net>::Loss;
  static constexpr bool is_soft = std::is_same_v<typename LossType::Target, float>;
  static constexpr auto classes = static_cast<std::size_t>(graph<Net>.output().out.elements());

  static bool none_counts(std::vector<std::int32_t> const& labels) {
    if constexpr (requires { LossType::class_weight(0); }) {
      return !is_soft && std::all_of(labels.begin(), labels.end(), [](std::int32_t label) {
        return !sample_counts<LossType>(label) || LossType::class_weight(label) == 0.0;
      });
    } else {
      return false;
    }
  }

  // Calls f with what the network takes of @p data.
  template <class F>
  static auto with(Data const& data, F const& f) {
    if constexpr (is_soft) {
      return f(soft_labels<static_cast<int>(classes)>(data.images));
    } else if constexpr (!of_tokens) {
      return f(data.images);
    } else if constexpr (requires { typename Net::input::second; }) {
      return f(TextPairs{data.texts, data.seconds});
    } else {
      return f(data.texts);
    }
  }

  // Of one token behind a text, which is read from its beginning.
  double loss_of(std::vector<std::int32_t> const& text, std::int32_t next, int longest) {
    Texts one{.longest = longest,
              .targets_each = longest,
              .lengths = {static_cast<int>(text.size())},
              .tokens = text};
    one.tokens.resize(static_cast<std::size_t>(longest), 0);
    one.y.resize(static_cast<std::size_t>(longest), -1);
    one.y[text.size() - 1] = next;
    return trainer_.evaluate(one).loss;
  }

  Trainer<Net, S, Backend, LossType, typename Choices<Net>::Metric,
          TransportOf<Backend>::template type>
      trainer_;
};

/// The equation of an asynchronous pipeline, computed by one thread; it only trains.
template <class Net, class Cut, class Backend, class Equation>
class EquationContender final : public Contender<typename Backend::Master> {
 public:
  using T = typename Backend::Master;
  explicit EquationContender(TrainerOptions const& options, int microbatches)
      : reference_{test::stages_of<Net, Cut, Backend>(options.batch, options.seed),
                   graph<Net>.parameters, options, microbatches} {}

  StepResult step(Samples<T> const& samples) override {
    if constexpr (graph<Net>.output().criterion) {
      int const time = samples.sequences.time;
      auto const count = static_cast<int>(samples.y.size()) / time;
      double const weight = DefaultLoss<Net>::weight({samples.y.data(), time}, 0, count);
      auto const lengths = samples.sequences.lengths;
      double const loss = reference_.step({samples.tokens.begin(), samples.tokens.end()}, samples.y,
                                          {time, {lengths.begin(), lengths.end()}, weight});
      return {.loss = loss, .weight = weight};
    } else {
      return {.loss = reference_.step(samples.x, samples.y)};
    }
  }
  std::vector<NamedParameter<T>> parameters(int /*replica*/, int /*copy*/) override {
    return reference_.parameters();
  }
  double train(Data const& /*data*/) override { return 0.0; }
  Evaluation evaluate(Data const& /*data*/, WhichModel /*which*/) override { return {}; }
  std::vector<float> predict(Data const& /*data*/) override { return {}; }
  std::string check_written(std::vector<std::int32_t> /*text*/) override { return ""; }
  void save(std::string const& /*path*/) override {}
  void load(std::string const& /*path*/) override {}
  [[nodiscard]] MemoryReport memory(int /*rank*/) override { return {}; }

 private:
  test::AsynchronousReference<T, Equation> reference_;
};

/// A strategy of a network, by its name.
template <class T>
struct Entry {
  std::string name;
  std::function<std::unique_ptr<Contender<T>>(TrainerOptions const&, int microbatches)> make{};
  int replicas = 1;
  int devices = 1;
  int slices = 1;  ///< ranks that share each device's part
  int pieces = 1;  ///< in which each layer or image that is dealt out is computed
  int chunks = 1;  ///< of time
  int copies = 1;
  bool over_processes = false;
  bool is_equation = false;
  bool is_late = false;  ///< an asynchronous pipeline
  std::function<DeviceMemory(TrainerOptions const&, int device)> bound{};
};

namespace detail {

/// Arrays of an optimizer's state that fits<> counts, whatever its settings.
inline int counted_states_of(Optimizer const& optimizer) {
  int const states = states_of(optimizer);
  return std::holds_alternative<Sgd>(optimizer) || states == 1 ? 1
         : states == 2                                         ? 2
                       : tandem::detail::counted_states<RMSprop>();
}

template <class Net, class S, class Precision>
DeviceMemory bound(TrainerOptions const& options, int device) {
  auto const averages = options.average.on() ? WeightAverages::kept : WeightAverages::none;
  int const states = counted_states_of(options.optimizer);
  return states == 1   ? device_memory<Net, S, Sgd, Precision>(options.batch, device, averages)
         : states == 2 ? device_memory<Net, S, Adam, Precision>(options.batch, device, averages)
                       : device_memory<Net, S, RMSprop, Precision>(options.batch, device, averages);
}

/// A precision of a backend's types.
template <class Backend>
struct PrecisionOf {
  using Scalar = typename Backend::Scalar;
  using Master = typename Backend::Master;
};

}  // namespace detail

/// @tparam Named  S, or where that takes any number of replicas, the same of so many
template <class Net, class S, class Backend, class Named = S>
Entry<MasterOf<Backend>> entry(std::string name) {
  using Computes = tandem::detail::ComputingBackend<Backend>;
  using T = MasterOf<Backend>;
  using P = Program<Net, S, static_cast<int>(sizeof(T))>;
  return {.name = std::move(name),
          .make = [](TrainerOptions const& options, int) -> std::unique_ptr<Contender<T>> {
            TrainerOptions own = options;
            own.world.devices = Named::ranks / own.world.processes;
            return std::make_unique<TrainerContender<Net, S, Backend>>(own);
          },
          .replicas = Named::ranks / S::devices,  // or slices, of which each shows all
          .devices = S::devices,
          .slices = P::slices,
          .pieces = P::has_tiles ? P::slices : P::layer_slices,
          .chunks = P::batching.chunks,
          .copies = P::map.copies,
          .over_processes = !std::is_same_v<Backend, Computes>,
          .is_late = P::asynchrony.on(),
          .bound = detail::bound<Net, Named, detail::PrecisionOf<Computes>>};
}

/// The same of a strategy that is a value.
/// @param named  @p value, or where that takes any number of replicas, the same of so many
template <class Net, class Backend>
Entry<MasterOf<Backend>> value_entry(std::string name, StrategyValue value, StrategyValue named) {
  using T = MasterOf<Backend>;
  int const ranks = named.mesh().size();
  Entry<T> made{.name = std::move(name),
                .replicas = ranks / value.devices(),
                .devices = value.devices(),
                .slices = value.tensor,
                .pieces = value.has_tiles() ? value.tensor : value.layer_slices(),
                .chunks = value.batching.chunks,
                .copies = tandem::detail::has_two_copies(value.schedule) ? 2 : 1,
                .is_late = value.asynchrony().on(),
                .bound = [named = std::move(named)](TrainerOptions const& options, int device) {
                  RuntimeProgram const program{graph<Net>, graph<Net>.tops, named, {}, sizeof(T)};
                  return program.memory(device, options.batch,
                                        {.master_bytes = sizeof(T),
                                         .scalar_bytes = sizeof(typename Backend::Scalar),
                                         .states = detail::counted_states_of(options.optimizer) +
                                                   (options.average.on() ? 1 : 0)});
                }};
  made.make = [ranks, value = std::move(value)](TrainerOptions const& options,
                                                int) -> std::unique_ptr<Contender<T>> {
    TrainerOptions own = options;
    own.world.devices = ranks;
    return std::make_unique<TrainerContender<Net, AnyStrategy, Backend>>(own, value);
  };
  return made;
}

template <class Net, class Backend, class S, class Named = S>
Entry<MasterOf<Backend>> value_entry(std::string name) {
  return value_entry<Net, Backend>(std::move(name), value_of<S>(), value_of<Named>());
}

/// @tparam Cut  a synchronous pipeline that is cut as the asynchronous one is
template <class Net, class Cut, class Backend, class Equation>
Entry<typename Backend::Master> equation(std::string name) {
  using T = typename Backend::Master;
  return {
      .name = std::move(name),
      .make = [](TrainerOptions const& options, int microbatches) -> std::unique_ptr<Contender<T>> {
        return std::make_unique<EquationContender<Net, Cut, Backend, Equation>>(options,
                                                                                microbatches);
      },
      .is_equation = true};
}

}  // namespace tandem::fuzz
