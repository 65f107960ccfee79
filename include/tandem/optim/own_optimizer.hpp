// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OwnOptimizer: an optimizer of any type, which only the kernels of its update know; and the
/// functors of these.
///
/// A program compiles the updates of those that it uses, by own_optimizer<Backend>() of
/// tandem/ops/bound_optimizer.hpp.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/optim/element_optimizer.hpp>
#include <tandem/optim/element_update.hpp>

namespace tandem {

/// What the engine asks of an optimizer whose type only its update knows.
struct AnyOptimizer {
  struct State {
    std::string name;
    double initial = 0.0;
    int place = 0;  ///< among the states of the type, of which not all need be kept
  };

  AnyOptimizer() = default;
  AnyOptimizer(AnyOptimizer const&) = delete;
  AnyOptimizer& operator=(AnyOptimizer const&) = delete;
  virtual ~AnyOptimizer() = default;

  std::string name{};
  std::vector<State> states{};
  bool decays = false;     ///< it has a weight_decay
  bool by_tensor = false;  ///< TensorOptimizer
  bool keeps_untouched =
      false;  ///< without weight decay it changes nothing where the gradient is 0
};

/// One of any type; copies share it.
struct OwnOptimizer {
  float learning_rate = 0.0F;
  float weight_decay = 0.0F;
  std::shared_ptr<AnyOptimizer const> type{};

  [[nodiscard]] int states() const { return static_cast<int>(type->states.size()); }
  [[nodiscard]] std::string const& state_name(int state) const {
    return type->states[static_cast<std::size_t>(state)].name;
  }
};

/// Fills in what is known of @p optimizer.
/// @throws ContractError  its check() says so
template <class O>
TANDEM_COLD void describe_optimizer(O const& optimizer, AnyOptimizer& any) {
  if constexpr (requires { optimizer.check(); }) {
    optimizer.check();
  }
  any.name = std::string{std::string_view{O::name}};
  any.decays = requires { optimizer.weight_decay; };
  any.by_tensor = TensorOptimizer<O>;
  any.keeps_untouched = detail::keeps_untouched<O>;
  for (int s = 0; s < detail::count_of_states<O>(); ++s) {
    AnyOptimizer::State state{.name = {}, .place = s};
    bool kept = true;
    if constexpr (requires { optimizer.keeps(s); }) {
      kept = optimizer.keeps(s);
    }
    if constexpr (requires { optimizer.initial(s); }) {
      state.initial = static_cast<double>(optimizer.initial(s));
    }
    if constexpr (detail::count_of_states<O>() > 0) {
      state.name = std::string{std::string_view{O::state_names[s]}};
    }
    if (kept) {
      any.states.push_back(std::move(state));
    }
  }
}

/// The functor of an own optimizer: as AverageUpdate, made of what prepare() gave.
template <class O, class T>
struct OwnUpdate {
  static constexpr int states = detail::places_of<O>;

  ParameterRun<T, states> run;
  O optimizer;
  SettingsFor<O, T> settings;
  TakenGradient<T> taken;

  TANDEM_HOST_DEVICE OwnUpdate(O const& o, UpdateSettings const& s, ParameterRun<T, states> r)
      : run{r},
        optimizer{o},
        settings{static_cast<T>(s.learning_rate), static_cast<T>(s.weight_decay), s.step,
                 detail::prepared(o, s)},
        taken{s} {}

  template <class V>
    requires UpdatesElements<O, V, T> TANDEM_HOST_DEVICE V
    next(V const& p, V const& gradient, V (&state)[static_cast<std::size_t>(states)])
  const {
    if constexpr (detail::is_stateless<O>) {
      return optimizer.next(p, taken(gradient), settings);
    } else {
      return optimizer.next(p, taken(gradient), state, settings);
    }
  }
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    detail::update_element(*this, run, i);
  }
};

/// The same of a TensorOptimizer. First move() of all elements of a parameter, then, with the rate
/// that comes of both norms, next() of them, which takes no gradient.
template <class O, class T>
struct TensorUpdate {
  static constexpr int states = detail::places_of<O>;

  ParameterRun<T, states> run;
  O optimizer;
  SettingsFor<O, T> settings;
  TakenGradient<T> taken;
  T rate{};

  TANDEM_HOST_DEVICE TensorUpdate(O const& o, UpdateSettings const& s, ParameterRun<T, states> r)
      : run{r},
        optimizer{o},
        settings{static_cast<T>(s.learning_rate), static_cast<T>(s.weight_decay), s.step,
                 detail::prepared(o, s)},
        taken{s} {}

  /// Moves the states of element @p i and adds to the square sums of parameter and direction.
  TANDEM_HOST_DEVICE void move(std::int64_t i, double& of_parameter, double& of_direction) const {
    T state[static_cast<std::size_t>(states)];
    for (int s = 0; s < states; ++s) {
      state[s] = run.state[s] != nullptr ? run.state[s][i] : T{0};
    }
    T const p = run.parameter[i];
    optimizer.move(p, taken(run.gradient[i]), state, settings);
    for (int s = 0; s < states; ++s) {
      if (run.state[s] != nullptr) {
        run.state[s][i] = state[s];
      }
    }
    T const(&moved)[static_cast<std::size_t>(states)] = state;
    double const u = static_cast<double>(optimizer.direction(p, moved, settings));
    of_parameter += static_cast<double>(p) * static_cast<double>(p);
    of_direction += u * u;
  }
  TANDEM_HOST_DEVICE void take_norms(double of_parameter, double of_direction) {
    rate = static_cast<T>(static_cast<double>(settings.learning_rate) *
                          optimizer.ratio(std::sqrt(of_parameter), std::sqrt(of_direction)));
  }
  template <class V>
    requires DirectsElements<O, V, T> TANDEM_HOST_DEVICE V
    next(V const& p, V const& /*gradient*/, V (&state)[static_cast<std::size_t>(states)])
  const {
    V const(&moved)[static_cast<std::size_t>(states)] = state;
    return p - V{rate} * optimizer.direction(p, moved, settings);
  }
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    detail::update_element(*this, run, i);
  }
};

template <class T, ElementOptimizer O>
TANDEM_HOST_DEVICE OwnUpdate<O, T> make_update(O const& o, UpdateSettings const& s,
                                               ParameterRun<T, detail::places_of<O>> run) {
  return {o, s, run};
}
template <class T, TensorOptimizer O>
TANDEM_HOST_DEVICE TensorUpdate<O, T> make_update(O const& o, UpdateSettings const& s,
                                                  ParameterRun<T, detail::places_of<O>> run) {
  return {o, s, run};
}

}  // namespace tandem
