// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ElementSlope: the derivative of a program's own function of one element, in the form that it
/// has.

#include <tandem/core/config.hpp>

namespace tandem {

/// Of L with `slope_of_output(y)`, `slope(x)` or `slope(x, y)`.
template <class L>
struct ElementSlope {
  static constexpr bool of_output = requires(float y) { L::slope_of_output(y); };
  static constexpr bool of_input = !of_output && requires(float x) { L::slope(x); };
  static constexpr bool reads_input = !of_output;
  static constexpr bool reads_output = !of_input;

  /// What is not read may be anything.
  template <class R>
  TANDEM_HOST_DEVICE static R at(R x, R y) {
    if constexpr (of_output) {
      return L::slope_of_output(y);
    } else if constexpr (of_input) {
      return L::slope(x);
    } else {
      return L::slope(x, y);
    }
  }
};

}  // namespace tandem
