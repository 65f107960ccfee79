// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lion: steps of one size, by the sign of a momentum.

#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/optim/check_rate.hpp>
#include <tandem/optim/element_update.hpp>

namespace tandem {

/// c = beta1 m + (1 - beta1) g; p -= learning_rate (sign(c) + weight_decay p); m = beta2 m +
/// (1 - beta2) g. Rates and decays that suit AdamW want to be three to ten times smaller and
/// larger here. One state, half of Adam's.
/// Source: Chen et al., arXiv:2302.06675, algorithm 2.
struct Lion {
  float learning_rate = 1e-4F;
  float beta1 = 0.9F;
  float beta2 = 0.99F;
  float weight_decay = 0.0F;

  static constexpr std::string_view name = "Lion";
  static constexpr std::string_view state_names[] = {"exp_avg"};

  void check() const {
    detail::check_beta(double{beta1}, "beta1");
    detail::check_beta(double{beta2}, "beta2");
  }

  template <class V>
  TANDEM_HOST_DEVICE V next(V const& p, V const& g, V (&state)[1], auto const& settings) const {
    V const zero{0};
    V const c = V{beta1} * state[0] + (V{1} - V{beta1}) * g;
    state[0] = V{beta2} * state[0] + (V{1} - V{beta2}) * g;
    V const sign = select(c > zero, V{1}, select(zero > c, V{-1}, c));  // 0, and a NaN, stay
    return p - V{settings.learning_rate} * (sign + V{settings.weight_decay} * p);
  }
};

}  // namespace tandem
