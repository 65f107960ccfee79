// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sgd, Adam, AdamW: settings as values, and the element-wise functors that every backend runs.
///
/// A functor updates element i of one flat run of parameters; backends call it for every i, or its
/// next() for several elements at once, and may construct it on the device. The arithmetic and its
/// order are PyTorch's.

#include <cmath>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <tandem/core/config.hpp>

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

using Optimizer = std::variant<Sgd, Adam, AdamW>;

/// "Sgd", "Adam" or "AdamW".
inline std::string optimizer_name(Optimizer const& optimizer) {
  static constexpr char const* names[] = {"Sgd", "Adam", "AdamW"};
  return names[optimizer.index()];
}

template <class = void>  // compiled where it is called, not by every include
double learning_rate_of(Optimizer const& optimizer) {
  return std::visit([](auto const& o) { return double{o.learning_rate}; }, optimizer);
}

/// Arrays of the parameters' size that the optimizer keeps between steps.
template <class = void>
int states_of(Optimizer const& optimizer) {
  return std::visit([](auto const& o) { return o.states(); }, optimizer);
}

/// Their names, as PyTorch's: "momentum_buffer"; "exp_avg", "exp_avg_sq".
template <class = void>
std::vector<std::string> state_names(Optimizer const& optimizer) {
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

/// One flat run of parameters with its gradients and optimizer states.
template <class T>
struct ParameterRun {
  T* parameter = nullptr;
  T const* gradient = nullptr;
  T* state[2] = {};
};

/// What changes from step to step and from group to group.
struct UpdateSettings {
  double learning_rate = 0.0;
  double weight_decay = 0.0;
  double gradient_scale = 1.0;  ///< of clipping
  std::int64_t step = 1;        ///< counted from 1
};

namespace detail {

/// Element @p i of @p run becomes what update.next() says of it.
template <class Update, class T>
TANDEM_HOST_DEVICE void update_element(Update const& update, ParameterRun<T> const& run,
                                       std::int64_t i) {
  T state[2] = {run.state[0] != nullptr ? run.state[0][i] : T{0},
                run.state[1] != nullptr ? run.state[1][i] : T{0}};
  run.parameter[i] = update.next(run.parameter[i], run.gradient[i], state);
  for (int s = 0; s < 2; ++s) {
    if (run.state[s] != nullptr) {
      run.state[s][i] = state[s];
    }
  }
}

}  // namespace detail

/// The functors below have next(p, g, state): the parameter after a step with gradient g, which
/// also moves the element's optimizer states, V being T or a vector of T; and operator()(i), which
/// does so to element i.
template <class T>
struct SgdUpdate {
  ParameterRun<T> run;
  T learning_rate, momentum, weight_decay, scale;
  bool nesterov;

  TANDEM_HOST_DEVICE SgdUpdate(Sgd const& o, UpdateSettings const& s, ParameterRun<T> r)
      : run{r},
        learning_rate{static_cast<T>(s.learning_rate)},
        momentum{static_cast<T>(o.momentum)},
        weight_decay{static_cast<T>(s.weight_decay)},
        scale{static_cast<T>(s.gradient_scale)},
        nesterov{o.nesterov} {}

  template <class V>
  TANDEM_HOST_DEVICE V next(V const& p, V const& gradient, V (&state)[2]) const {
    V g = gradient * V{scale} + V{weight_decay} * p;
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
  T step_size, beta1, beta2, epsilon, root_correction, l2, shrink, scale;

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
        scale{static_cast<T>(s.gradient_scale)} {}

  template <class V>
  TANDEM_HOST_DEVICE V next(V const& before, V const& gradient, V (&state)[2]) const {
    V const p = before * V{shrink};
    V const g = gradient * V{scale} + V{l2} * p;
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

/// A statistic's running average: p = (1 - rate) p + rate (average over the step's microbatches).
template <class T>
struct AverageUpdate {
  ParameterRun<T> run;
  T rate;

  template <class V>
  TANDEM_HOST_DEVICE V next(V const& p, V const& average, V (&/*state*/)[2]) const {
    return V{T{1} - rate} * p + V{rate} * average;
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
