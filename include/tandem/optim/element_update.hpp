// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What element-wise updates are made of: a run of parameters, a step's settings, the gradient as
/// it is taken, and choosing between two numbers, lane by lane where they are vectors.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include <tandem/core/config.hpp>

namespace tandem {

/// @p a where @p condition is true, @p b elsewhere: of numbers, and lane by lane of the vectors
/// that Host updates in. A comparison, a > b or a <= b, is such a condition.
template <class Condition, class V>
TANDEM_HOST_DEVICE constexpr V select(Condition const& condition, V const& a, V const& b) {
  if constexpr (std::is_same_v<Condition, bool>) {
    return condition ? a : b;
  } else {
    return select(condition, a, b);  // the vectors' own
  }
}

/// One flat run of parameters with its gradients and optimizer states.
/// @tparam States  places for states, 1 or more; null where there is none
template <class T, int States = 2>
struct ParameterRun {
  T* parameter = nullptr;
  T const* gradient = nullptr;
  T* state[static_cast<std::size_t>(States)] = {};

  static constexpr int states = States;
};

/// What changes from step to step and from group to group.
struct UpdateSettings {
  double learning_rate = 0.0;
  double weight_decay = 0.0;
  double gradient_scale = 1.0;  ///< of clipping
  std::int64_t step = 1;        ///< counted from 1
  double clip_value = 0.0;      ///< largest size of a gradient, behind its scale; 0: any
};

/// A gradient as an update takes it: scaled, then clipped by value.
template <class T>
struct TakenGradient {
  T scale, largest;

  TANDEM_HOST_DEVICE explicit TakenGradient(UpdateSettings const& s)
      : scale{static_cast<T>(s.gradient_scale)}, largest{static_cast<T>(s.clip_value)} {}

  template <class V>
  TANDEM_HOST_DEVICE V operator()(V const& gradient) const {
    V const g = gradient * V{scale};
    if (!(largest > T{0})) {  // the same of all elements
      return g;
    }
    V const above = V{largest};
    V const below = V{-largest};
    return select(g > above, above, select(below > g, below, g));  // a NaN stays
  }
};

namespace detail {

/// Element @p i of @p run becomes what update.next() says of it.
template <class Update, class T, int States>
TANDEM_HOST_DEVICE void update_element(Update const& update, ParameterRun<T, States> const& run,
                                       std::int64_t i) {
  T state[static_cast<std::size_t>(States)];
  for (int s = 0; s < States; ++s) {
    state[s] = run.state[s] != nullptr ? run.state[s][i] : T{0};
  }
  run.parameter[i] = update.next(run.parameter[i], run.gradient[i], state);
  for (int s = 0; s < States; ++s) {
    if (run.state[s] != nullptr) {
      run.state[s][i] = state[s];
    }
  }
}

}  // namespace detail

/// A statistic's running average: p = (1 - rate) p + rate (average over the step's microbatches).
///
/// As all functors of updates it has next(p, g, state), the parameter after a step with gradient g,
/// which also moves the element's optimizer states, V being T or a vector of T; and operator()(i),
/// which does so to element i.
template <class T, int States = 2>
struct AverageUpdate {
  ParameterRun<T, States> run;
  T rate;

  template <class V>
  TANDEM_HOST_DEVICE V next(V const& p, V const& average,
                            V (&/*state*/)[static_cast<std::size_t>(States)]) const {
    return V{T{1} - rate} * p + V{rate} * average;
  }
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    detail::update_element(*this, run, i);
  }
};

}  // namespace tandem
