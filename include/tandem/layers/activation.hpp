// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ReLU and Dropout: layers that keep their input's shape and have no parameters.

#include <tandem/graph/layer.hpp>

namespace tandem {

/// y = max(x, 0). Its gradient is taken from y, so x need not be kept.
struct ReLU {
  using layer = ReLU;
  static constexpr std::string_view name = "ReLU";
  static constexpr Shape output(Shape in) { return in; }
};

/// A probability in hundredths.
template <int Value>
struct Percent {
  static_assert(Value >= 0 && Value < 100, "Percent<Value>: give a number from 0 to 99");
  static constexpr double value = Value / 100.0;
};

/// y = x / (1 - Rate) with probability 1 - Rate, else 0; in evaluation y = x.
///
/// The mask depends on (seed, step, sample, layer, element) only and is drawn again in backward.
/// Source: Srivastava et al., JMLR 15 (2014).
template <class Rate = Percent<50>>
struct Dropout {
  using layer = Dropout;
  static constexpr std::string_view name = "Dropout";
  static constexpr double rate = Rate::value;
  static constexpr Shape output(Shape in) { return in; }
};

}  // namespace tandem
