// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sgd, Adam, AdamW: settings as values, and the element-wise functors that every backend runs;
/// Optimizer: any of them, or an own one.
///
/// A functor updates element i of one flat run of parameters; backends call it for every i, or its
/// next() for several elements at once, and may construct it on the device. The arithmetic and its
/// order are PyTorch's.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/optim/element_update.hpp>
#include <tandem/optim/own_optimizer.hpp>

namespace tandem {

/// Stochastic gradient descent with heavy-ball or Nesterov momentum and L2 weight decay.
///
/// g += weight_decay p; v = momentum v + g; p -= learning_rate (nesterov ? g + momentum v : v).
struct Sgd {
  float learning_rate = 0.01F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
  bool nesterov = false;

  [[nodiscard]] constexpr int states() const { return momentum != 0.0F ? 1 : 0; }
  static constexpr char const* state_name(int /*state*/) { return "momentum_buffer"; }
};

/// Adam with L2 weight decay. Source: Kingma, Ba, arXiv:1412.6980.
struct Adam {
  float learning_rate = 0.001F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;

  [[nodiscard]] static constexpr int states() { return 2; }
  static constexpr char const* state_name(int state) {
    return state == 0 ? "exp_avg" : "exp_avg_sq";
  }
};

/// Adam with decoupled weight decay. Source: Loshchilov, Hutter, arXiv:1711.05101.
struct AdamW {
  float learning_rate = 0.001F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.01F;

  [[nodiscard]] static constexpr int states() { return 2; }
  static constexpr char const* state_name(int state) { return Adam::state_name(state); }
};

namespace detail {

template <class O>
inline constexpr bool is_alternative = false;
template <>
inline constexpr bool is_alternative<Sgd> = true;
template <>
inline constexpr bool is_alternative<Adam> = true;
template <>
inline constexpr bool is_alternative<AdamW> = true;
template <>
inline constexpr bool is_alternative<OwnOptimizer> = true;

}  // namespace detail

/// An optimizer as a value: one of those whose updates every trainer has, or an OwnOptimizer, which
/// has brought its own.
struct Optimizer : std::variant<Sgd, Adam, AdamW, OwnOptimizer> {
  using variant::variant;

  /// The sentence for any other.
  template <class O>
    requires(std::is_class_v<O>&& HasLearningRate<O> && !detail::is_alternative<O>)
  Optimizer(O const& /*optimizer*/) {
    static_assert(sizeof(O) == 0,
                  "TrainerOptions: only Sgd, Adam and AdamW stand in .optimizer as they are; "
                  "give this one behind the options, Trainer<...> trainer{{.batch = 128}, "
                  "Lion{...}}, or write .optimizer = own_optimizer<Host>(Lion{...})");
  }
};

/// "Sgd", "Adam", "AdamW", or as an own one says.
TANDEM_ONCE std::string optimizer_name(Optimizer const& optimizer);

/// Whether it must see each parameter by itself, and whole.
TANDEM_ONCE bool is_by_tensor(Optimizer const& optimizer);

/// What the elements of a state are before the first step.
TANDEM_ONCE double initial_state(Optimizer const& optimizer, std::size_t state);

TANDEM_ONCE double learning_rate_of(Optimizer const& optimizer);

/// Arrays of the parameters' size that the optimizer keeps between steps.
TANDEM_ONCE int states_of(Optimizer const& optimizer);

/// Their names, as PyTorch's: "momentum_buffer"; "exp_avg", "exp_avg_sq".
TANDEM_ONCE std::vector<std::string> state_names(Optimizer const& optimizer);

/// The functors below are as AverageUpdate.
template <class T>
struct SgdUpdate {
  ParameterRun<T> run;
  T learning_rate, momentum, weight_decay;
  TakenGradient<T> taken;
  bool nesterov;

  TANDEM_HOST_DEVICE SgdUpdate(Sgd const& o, UpdateSettings const& s, ParameterRun<T> r)
      : run{r},
        learning_rate{static_cast<T>(s.learning_rate)},
        momentum{static_cast<T>(o.momentum)},
        weight_decay{static_cast<T>(s.weight_decay)},
        taken{s},
        nesterov{o.nesterov} {}

  template <class V>
  TANDEM_HOST_DEVICE V next(V const& p, V const& gradient, V (&state)[2]) const {
    V g = taken(gradient) + V{weight_decay} * p;
    if (run.state[0] != nullptr) {
      V const v = V{momentum} * state[0] + g;
      state[0] = v;
      g = nesterov ? g + V{momentum} * v : v;
    }
    return p - V{learning_rate} * g;
  }
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    detail::update_element(*this, run, i);
  }
};

template <class T>
struct AdamUpdate {
  ParameterRun<T> run;
  T step_size, beta1, beta2, epsilon, root_correction, l2, shrink;
  TakenGradient<T> taken;

  template <class O>
  TANDEM_HOST_DEVICE AdamUpdate(O const& o, UpdateSettings const& s, ParameterRun<T> r,
                                bool decoupled)
      : run{r},
        step_size{static_cast<T>(s.learning_rate /
                                 (1.0 - std::pow(double{o.beta1}, static_cast<double>(s.step))))},
        beta1{static_cast<T>(o.beta1)},
        beta2{static_cast<T>(o.beta2)},
        epsilon{static_cast<T>(o.epsilon)},
        root_correction{static_cast<T>(
            1.0 / std::sqrt(1.0 - std::pow(double{o.beta2}, static_cast<double>(s.step))))},
        l2{decoupled ? T{0} : static_cast<T>(s.weight_decay)},
        shrink{decoupled ? static_cast<T>(1.0 - s.learning_rate * s.weight_decay) : T{1}},
        taken{s} {}

  template <class V>
  TANDEM_HOST_DEVICE V next(V const& before, V const& gradient, V (&state)[2]) const {
    V const p = before * V{shrink};
    V const g = taken(gradient) + V{l2} * p;
    V const m = V{beta1} * state[0] + V{T{1} - beta1} * g;
    V const v = V{beta2} * state[1] + V{T{1} - beta2} * g * g;
    state[0] = m;
    state[1] = v;
    using std::sqrt;
    return p - V{step_size} * m / (sqrt(v) * V{root_correction} + V{epsilon});
  }
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    detail::update_element(*this, run, i);
  }
};

template <class T>
TANDEM_HOST_DEVICE SgdUpdate<T> make_update(Sgd const& o, UpdateSettings const& s,
                                            ParameterRun<T> run) {
  return {o, s, run};
}
template <class T>
TANDEM_HOST_DEVICE AdamUpdate<T> make_update(Adam const& o, UpdateSettings const& s,
                                             ParameterRun<T> run) {
  return {o, s, run, false};
}
template <class T>
TANDEM_HOST_DEVICE AdamUpdate<T> make_update(AdamW const& o, UpdateSettings const& s,
                                             ParameterRun<T> run) {
  return {o, s, run, true};
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string optimizer_name(Optimizer const& optimizer) {
  if (auto const* const own = std::get_if<OwnOptimizer>(&optimizer)) {
    return own->type->name;
  }
  static constexpr char const* names[] = {"Sgd", "Adam", "AdamW"};
  return names[optimizer.index()];
}

TANDEM_ONCE bool is_by_tensor(Optimizer const& optimizer) {
  auto const* const own = std::get_if<OwnOptimizer>(&optimizer);
  return own != nullptr && own->type->by_tensor;
}

TANDEM_ONCE double initial_state(Optimizer const& optimizer, std::size_t state) {
  auto const* const own = std::get_if<OwnOptimizer>(&optimizer);
  return own != nullptr ? own->type->states[state].initial : 0.0;
}

TANDEM_ONCE double learning_rate_of(Optimizer const& optimizer) {
  return std::visit([](auto const& o) { return double{o.learning_rate}; }, optimizer);
}

TANDEM_ONCE int states_of(Optimizer const& optimizer) {
  return std::visit([](auto const& o) { return o.states(); }, optimizer);
}

TANDEM_ONCE std::vector<std::string> state_names(Optimizer const& optimizer) {
  return std::visit(
      [](auto const& o) {
        std::vector<std::string> names;
        for (int s = 0; s < o.states(); ++s) {
          names.emplace_back(o.state_name(s));
        }
        return names;
      },
      optimizer);
}

}  // namespace tandem

#endif
