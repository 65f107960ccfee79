// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ReLU and Dropout: layers that keep their input's shape and have no parameters.

#include <tandem/graph/columns.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/graph/neighbourhood.hpp>

namespace tandem {

/// y = max(x, 0). Its gradient is taken from y, so x need not be kept.
struct ReLU {
  using layer = ReLU;
  static constexpr std::string_view name = "ReLU";
  static constexpr LayerKind kind = LayerKind::relu;
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Columns columns(Shape) { return Columns::alike(); }
  static constexpr Neighbourhood neighbourhood(Shape) { return Neighbourhood::alone(); }
};

namespace detail {

template <int Value>
struct PercentIsSound {
  static constexpr bool value = true;
  static_assert(Value >= 0 && Value < 100, "Percent<Value>: give a number from 0 to 99");
};

}  // namespace detail

/// A probability in hundredths.
template <int Value>
struct Percent {
  static constexpr double value = Value / 100.0;
  static_assert(detail::PercentIsSound<Value>::value);
};

template <class R>
concept DropoutRate = requires {
  { R::value } -> std::convertible_to<double>;
};

namespace detail {

template <class Rate>
struct DropoutIsSound {
  static constexpr bool value = true;
  static_assert(DropoutRate<Rate>, "Dropout<Rate>: Rate is Percent<0> to Percent<99>");
};

}  // namespace detail

/// y = x / (1 - Rate) with probability 1 - Rate, else 0; in evaluation y = x.
///
/// The mask depends on (seed, step, sample, layer, element) only and is drawn again in backward.
/// Source: Srivastava et al., JMLR 15 (2014).
/// The primary template is the error path. Its argument's name is all of ours that compilers
/// print for a number, as in Dropout<0.5>.
template <class RateIsATypeSuchAsPercent50 = Percent<50>>
struct Dropout {
  static constexpr std::string_view name = "Dropout";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::DropoutIsSound<RateIsATypeSuchAsPercent50>::value);
};

template <DropoutRate Rate>
struct Dropout<Rate> {
  using layer = Dropout;
  static constexpr std::string_view name = "Dropout";
  static constexpr LayerKind kind = LayerKind::dropout;
  static constexpr double rate = Rate::value;
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Columns columns(Shape) { return Columns::alike(); }
  static constexpr Kept kept(Shape in) { return in.timed ? Kept::of(false, false) : Kept{}; }
};

}  // namespace tandem
