// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lamb: Adam with a rate of its own for each parameter, for large batches.

#include <cmath>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/optim/check_rate.hpp>
#include <tandem/optim/element_update.hpp>

namespace tandem {

/// Adam's m and v, with its corrections of both; u = m / (sqrt(v) + epsilon) + weight_decay p; and
/// p -= learning_rate |p| / |u| u, norms of the whole parameter; where one of them is 0 their ratio
/// is 1. A group without weight decay, of biases and norms, keeps its ratios.
/// Cost:  two passes over parameters and states.
/// Order: the norms are summed in double, in an order that depends on the parameter's size only.
/// Source: You et al., arXiv:1904.00962, algorithm 2, where the scaling function is the identity.
struct Lamb {
  float learning_rate = 0.001F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-6F;
  float weight_decay = 0.01F;

  static constexpr std::string_view name = "Lamb";
  static constexpr std::string_view state_names[] = {"exp_avg", "exp_avg_sq"};

  struct Corrections {
    double first, second;
  };
  TANDEM_HOST_DEVICE Corrections prepare(UpdateSettings const& s) const {
    auto const t = static_cast<double>(s.step);
    return {1.0 / (1.0 - std::pow(double{beta1}, t)), 1.0 / (1.0 - std::pow(double{beta2}, t))};
  }

  void check() const {
    detail::check_beta(double{beta1}, "beta1");
    detail::check_beta(double{beta2}, "beta2");
    detail::check_rate(double{epsilon}, "epsilon");
  }

  template <class V>
  TANDEM_HOST_DEVICE void move(V const& /*p*/, V const& g, V (&state)[2],
                               auto const& /*settings*/) const {
    state[0] = V{beta1} * state[0] + (V{1} - V{beta1}) * g;
    state[1] = V{beta2} * state[1] + (V{1} - V{beta2}) * g * g;
  }
  template <class V, class S>
  TANDEM_HOST_DEVICE V direction(V const& p, V const (&state)[2], S const& settings) const {
    using std::sqrt;
    using T = decltype(settings.learning_rate);
    V const m = state[0] * V{static_cast<T>(settings.prepared.first)};
    V const v = state[1] * V{static_cast<T>(settings.prepared.second)};
    return m / (sqrt(v) + V{epsilon}) + V{settings.weight_decay} * p;
  }
  TANDEM_HOST_DEVICE double ratio(double of_parameter, double of_direction) const {
    return of_parameter > 0.0 && of_direction > 0.0 ? of_parameter / of_direction : 1.0;
  }
};

}  // namespace tandem
