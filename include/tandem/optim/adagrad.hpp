// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Adagrad, as PyTorch's.

#include <cmath>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/optim/check_rate.hpp>
#include <tandem/optim/element_update.hpp>

namespace tandem {

/// Gradients over the root of the sum of all their squares, with L2 weight decay.
///
/// g += weight_decay p; s += g²; p -= learning_rate / (1 + (t - 1) lr_decay) g / (sqrt(s) +
/// epsilon), t being the step from 1; s begins with initial_accumulator_value.
/// Source: Duchi, Hazan, Singer, JMLR 12 (2011), the diagonal version.
struct Adagrad {
  float learning_rate = 0.01F;
  float lr_decay = 0.0F;
  float weight_decay = 0.0F;
  float initial_accumulator_value = 0.0F;
  float epsilon = 1e-10F;

  static constexpr std::string_view name = "Adagrad";
  static constexpr std::string_view state_names[] = {"sum"};
  static constexpr bool keeps_untouched = true;
  [[nodiscard]] constexpr float initial(int /*state*/) const { return initial_accumulator_value; }
  struct Rate {
    double value;
  };
  TANDEM_HOST_DEVICE Rate prepare(UpdateSettings const& s) const {
    return {s.learning_rate / (1.0 + static_cast<double>(s.step - 1) * double{lr_decay})};
  }

  void check() const {
    detail::check_rate(double{lr_decay}, "lr_decay");
    detail::check_rate(double{initial_accumulator_value}, "initial_accumulator_value");
    detail::check_rate(double{epsilon}, "epsilon");
  }

  template <class V, class S>
  TANDEM_HOST_DEVICE V next(V const& p, V const& gradient, V (&state)[1], S const& settings) const {
    using std::sqrt;
    V const g = gradient + V{settings.weight_decay} * p;
    state[0] = state[0] + g * g;
    V const rate{static_cast<decltype(settings.learning_rate)>(settings.prepared.value)};
    return p - rate * g / (sqrt(state[0]) + V{epsilon});
  }
};

}  // namespace tandem
