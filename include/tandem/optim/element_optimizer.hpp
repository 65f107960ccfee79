// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ElementOptimizer: what an optimizer of any type must have, RMSprop, Adagrad, Lion and a
/// program's own; TensorOptimizer: likewise where a whole parameter has a factor of its own, Lamb.

#include <concepts>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

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

/// The same with move(), direction() and ratio() in place of next(): of a whole parameter's norms.
template <class O>
concept TensorOptimizer = HasOptimizerName<O> && HasLearningRate<O> && CopiesAsBytes<O> &&
    NamesStates<O> && DirectsElements<O, float> && DirectsElements<O, double>;

}  // namespace tandem
