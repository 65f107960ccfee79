// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sentences for arguments that no Trainer can have, and what is compiled in its place, so that
/// such a sentence is the only error.

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/graph/network.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/train/beam.hpp>
#include <tandem/train/checkpoint/checkpoint.hpp>
#include <tandem/train/confusion.hpp>
#include <tandem/train/options/options.hpp>
#include <tandem/train/parameters.hpp>
#include <tandem/train/plateau.hpp>

namespace tandem::detail {

template <class N>
concept IsNetwork = requires {
  typename N::input;
  typename N::body;
}
&&!requires { typename N::Refused; };

/// A network; or an empty class, as a network is after an error about its base, which may be one of
/// the compiler's own.
template <class N>
concept MayBeNetwork = IsNetwork<N> ||
    (requires { requires sizeof(N) > 0 && std::is_empty_v<N>; } && !Strategy<N> && !NetworkPart<N>);

/// Never defined. Compilers say its sentence where they generate code, which no error precedes.
struct NoNetwork {
  [[gnu::error("Trainer<Net>, Predictor<Net>: Net has no base Network<Input, Body>")]] NoNetwork();
};

/// What each argument is comes as a bool, which compilers explain in one line, as they do not a
/// concept.
template <bool IsNetwork, bool IsStrategy, bool IsLoss, bool IsMetric>
struct TrainerArguments {
  static constexpr bool value = true;
  static_assert(IsNetwork,
                "Trainer<Net, Strategy, Backend>: the first is a network, such as struct Net : "
                "Network<Image<3, 32, 32>, Sequential<...>> {}; the strategy comes second");
  static_assert(!IsNetwork || IsStrategy,
                "Trainer<Net, Strategy, Backend>: the second is a strategy, such as SingleDevice<> "
                "or DataParallel<2>; the backend, Host or Cuda, comes third");
  static_assert(!IsNetwork || !IsStrategy || IsLoss,
                "Trainer<Net, Strategy, Backend, Loss>: the fourth is a loss, such as "
                "SoftmaxCrossEntropy<> or MeanSquaredError; see Loss of tandem/layers/loss.hpp");
  static_assert(!IsNetwork || !IsStrategy || !IsLoss || IsMetric,
                "Trainer<Net, Strategy, Backend, Loss, Metric>: the fifth is a metric, such as "
                "Accuracy or TopK<5>; see Metric of tandem/layers/loss.hpp");
};

/// Has the verbs of a Trainer, and does nothing.
struct RefusedTrainer {
  explicit RefusedTrainer(TrainerOptions const& /*options*/ = {}) {}
  RefusedTrainer(TrainerOptions const& /*options*/, auto const& /*optimizer*/) {}
  EpochResult train(auto const&...) { return {}; }
  Evaluation evaluate(auto const&...) { return {}; }
  Confusion confusion(auto const&...) { return Confusion{1}; }
  std::vector<float> predict(auto const&...) { return {}; }
  std::vector<std::int32_t> generate(auto const&...) { return {}; }
  std::vector<std::vector<Hypothesis>> search(auto const&...) { return {}; }
  StepResult step(auto const&...) { return {}; }
  void save(auto const&...) const {}
  void export_model(auto const&...) const {}
  void load(auto const&...) {}
  std::vector<std::string> load_weights(auto const&...) { return {}; }
  void set_parameter(auto const&...) {}
  std::vector<NamedParameter<float>> parameters(auto const&...) const { return {}; }
  TrainingPosition const& position() const { return position_; }
  Epochs epochs(auto const&...) { return Epochs{0}; }
  Plateau plateau(auto const&...) { return {position_.plateaus[0], position_.step}; }
  void set_position(auto const&...) {}
  double learning_rate() const { return {}; }
  void set_learning_rate(auto const&...) {}

 private:
  NoNetwork no_network_;
  TrainingPosition position_;
};

}  // namespace tandem::detail
