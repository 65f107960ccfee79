// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OwnOptimizer: an optimizer of any type, which only the kernels of its update know; and the
/// functors of these.
///
/// A program compiles the updates of those that it uses, by own_optimizer<Backend>() of
/// tandem/ops/bound_optimizer.hpp.

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/optim/element_update.hpp>

namespace tandem {

/// States that an optimizer may have.
inline constexpr int most_states = 8;

namespace detail {

template <class O>
constexpr int count_of_states() {
  if constexpr (requires { O::state_names; }) {
    return static_cast<int>(std::size(O::state_names));
  } else {
    return 0;
  }
}

/// Whether it says that without weight decay it changes neither a weight whose gradient is 0 nor
/// its states, so that rows of such weights may be left out.
template <class O>
inline constexpr bool keeps_untouched = [] {
  if constexpr (requires { O::keeps_untouched; }) {
    return bool{O::keeps_untouched};
  } else {
    return false;
  }
}();

template <class O>
inline constexpr bool is_stateless = count_of_states<O>() == 0;
/// Places for states in a functor: at least one, since C++ has no array of none.
template <class O>
inline constexpr int places_of = is_stateless<O> ? 1 : count_of_states<O>();

struct NothingPrepared {};

template <class O>
TANDEM_HOST_DEVICE auto prepared(O const& optimizer, UpdateSettings const& settings) {
  if constexpr (requires { optimizer.prepare(settings); }) {
    return optimizer.prepare(settings);
  } else {
    return NothingPrepared{};
  }
}
template <class O>
using PreparedOf = decltype(prepared(std::declval<O const&>(), UpdateSettings{}));

}  // namespace detail

/// What an element's update is told of its step.
template <class T, class Prepared = detail::NothingPrepared>
struct ElementSettings {
  T learning_rate;        ///< by schedule and group
  T weight_decay;         ///< of the group, or else the optimizer's; 0 where that has none
  std::int64_t step = 1;  ///< counted from 1
  Prepared prepared;      ///< what the optimizer's prepare() gave for this step
};

template <class O, class T>
using SettingsFor = ElementSettings<T, detail::PreparedOf<O>>;

// One ability each, so that a sentence can say which is missing.
template <class O>
concept HasOptimizerName = requires {
  { O::name } -> std::convertible_to<std::string_view>;
};
template <class O>
concept HasLearningRate = requires(O const& o) {
  { o.learning_rate } -> std::convertible_to<double>;
};
template <class O>
concept CopiesAsBytes = std::is_trivially_copyable_v<O>;

namespace detail {

template <class O>
constexpr bool names_its_states() {
  constexpr int count = count_of_states<O>();
  if constexpr (count > 0 && count <= most_states) {
    for (int i = 0; i < count; ++i) {
      std::string_view const name{O::state_names[i]};
      bool good = !name.empty() && name.find('.') == std::string_view::npos;
      for (int j = 0; j < i; ++j) {
        good = good && name != std::string_view{O::state_names[j]};
      }
      if (!good) {
        return false;
      }
    }
  }
  return count <= most_states;
}

template <class O, class V>
using StatesOf = V (&)[places_of<O>];
template <class O, class V>
using ConstStatesOf = V const (&)[places_of<O>];

}  // namespace detail

/// At most most_states of them, each with a name of its own, without a dot.
template <class O>
concept NamesStates = detail::names_its_states<O>();

/// next(p, g, state, settings): the parameter after a step with gradient g; it moves the states. An
/// optimizer without states has next(p, g, settings).
template <class O, class V, class T = V>
concept UpdatesElements = (detail::is_stateless<O> &&
                           requires(O const& o, V const& p, SettingsFor<O, T> const& settings) {
                             { o.next(p, p, settings) } -> std::same_as<V>;
                           }) ||
                          (!detail::is_stateless<O> &&
                           requires(O const& o, V const& p, detail::StatesOf<O, V> state,
                                    SettingsFor<O, T> const& settings) {
                             { o.next(p, p, state, settings) } -> std::same_as<V>;
                           });

/// move(p, g, state, settings) moves the states; direction(p, state, settings) is where the
/// parameter goes then, times learning rate and ratio(|p|, |direction|) of the whole parameter.
template <class O, class V, class T = V>
concept DirectsElements = requires(O const& o, V const& p, detail::StatesOf<O, V> state,
                                   detail::ConstStatesOf<O, V> moved,
                                   SettingsFor<O, T> const& settings) {
  o.move(p, p, state, settings);
  { o.direction(p, moved, settings) } -> std::same_as<V>;
  { o.ratio(1.0, 1.0) } -> std::convertible_to<double>;
};

/// What every optimizer of a program's own has, of float and of double:
///
///   struct SignOfMomentum {
///     float learning_rate = 1e-3F;
///     float momentum = 0.9F;
///     static constexpr std::string_view name = "SignOfMomentum";
///     static constexpr std::string_view state_names[] = {"momentum_buffer"};
///     template <class V>
///     TANDEM_HOST_DEVICE V next(V const& p, V const& g, V (&state)[1], auto const& s) const {
///       V const zero{0};
///       state[0] = V{momentum} * state[0] + g;
///       V const step{s.learning_rate};
///       return p - select(state[0] > zero, step, select(zero > state[0], zero - step, zero));
///     }
///   };
///
/// V is float or double, or on Host, compiled by g++ or clang, 16 floats at once, for which there
/// are a + b, a - b, a * b, a / b, sqrt (`using std::sqrt;`), a > b, a <= b, a == b and select(). A
/// next() of `template <std::floating_point V>` is called number by number everywhere. It may have,
/// too:
///   float weight_decay        what groups may replace; the update gets it by its settings
///   bool keeps(int state)     whether these settings need that state; without it all
///   static constexpr bool keeps_untouched = true: without weight decay it changes neither a weight
///                             whose gradient is 0 nor its states, as RowGradient asks
///   float initial(int state)  what its elements begin with; without it 0
///   void check()              throws a ContractError if a setting is out of range
///   auto prepare(UpdateSettings const&)  what is the same for all elements of a step but dear,
///                             such as a power; settings.prepared in next(); for devices, too
template <class O>
concept ElementOptimizer = HasOptimizerName<O> && HasLearningRate<O> && CopiesAsBytes<O> &&
    NamesStates<O> && UpdatesElements<O, float> && UpdatesElements<O, double>;

/// An optimizer whose steps depend on the norms of a whole parameter: it has move(), direction()
/// and ratio() in place of next().
template <class O>
concept TensorOptimizer = HasOptimizerName<O> && HasLearningRate<O> && CopiesAsBytes<O> &&
    NamesStates<O> && DirectsElements<O, float> && DirectsElements<O, double>;

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
