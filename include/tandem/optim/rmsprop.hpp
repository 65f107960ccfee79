// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RMSprop, as PyTorch's.

#include <cmath>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/optim/check_rate.hpp>
#include <tandem/optim/element_update.hpp>

namespace tandem {

/// Gradients over the root of their running square, with L2 weight decay.
///
/// g += weight_decay p; s = alpha s + (1 - alpha) g²; d = sqrt(s) + epsilon, where it is centred
/// sqrt(s - m²) + epsilon with m = m + (1 - alpha) (g - m); p -= learning_rate g / d, with momentum
/// v = momentum v + g / d; p -= learning_rate v.
/// Source: Tieleman, Hinton, Lecture 6.5 of Neural Networks for Machine Learning (2012); centred:
///         Graves, arXiv:1308.0850, equations 38 to 43.
struct RMSprop {
  float learning_rate = 0.01F;
  float alpha = 0.99F;
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;
  float momentum = 0.0F;
  bool centered = false;

  static constexpr std::string_view name = "RMSprop";
  static constexpr std::string_view state_names[] = {"square_avg", "momentum_buffer", "grad_avg"};
  [[nodiscard]] constexpr bool keeps(int state) const {
    return state == 0 || (state == 1 ? momentum > 0.0F : centered);
  }

  void check() const {
    detail::check_beta(double{alpha}, "alpha");
    detail::check_rate(double{epsilon}, "epsilon");
    detail::check_rate(double{momentum}, "momentum");
  }

  template <class V>
  TANDEM_HOST_DEVICE V next(V const& p, V const& gradient, V (&state)[3],
                            auto const& settings) const {
    using std::sqrt;
    V const g = gradient + V{settings.weight_decay} * p;
    V const fresh = V{1} - V{alpha};
    state[0] = V{alpha} * state[0] + fresh * g * g;
    V square = state[0];
    if (centered) {
      state[2] = state[2] + fresh * (g - state[2]);
      V const variance = square - state[2] * state[2];
      square = select(variance > V{0}, variance, V{0});  // rounding may say otherwise
    }
    V step = g / (sqrt(square) + V{epsilon});
    if (momentum > 0.0F) {
      step = state[1] = V{momentum} * state[1] + step;
    }
    return p - V{settings.learning_rate} * step;
  }
};

}  // namespace tandem
