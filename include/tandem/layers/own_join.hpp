// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ElementJoin: what a program derives a rule of its own for Join from that every backend runs,
/// given by functions of one element of each of two branches.
///
///   struct Gate : ElementJoin<Gate> {  // Join<Gate, Linear<8>, Sequential<Linear<8>, Tanh>>
///     static constexpr std::string_view name = "Gate";
///     template <class R>
///     TANDEM_HOST_DEVICE static R value(R a, R b) { return a * b; }
///     template <class R>
///     TANDEM_HOST_DEVICE static R first_slope(R, R b) { return b; }
///     template <class R>
///     TANDEM_HOST_DEVICE static R second_slope(R a, R) { return a; }
///   };

#include <concepts>
#include <span>

#include <tandem/core/config.hpp>
#include <tandem/graph/network.hpp>

namespace tandem {

/// y = R::value(a, b), element by element of the outputs of two branches.
///
/// R, which derives from this, has `name`, `value(a, b)`, and its derivatives by a and by b,
/// `first_slope(a, b)` and `second_slope(a, b)`: static templates of the type that a backend
/// computes in, float or double, and TANDEM_HOST_DEVICE for Cuda.
///
/// Shapes: a and b any, and the same; y as these.
template <class R>
struct ElementJoin {
  using layer = R;
  static constexpr Shape output(std::span<Shape const> in) {
    return in.size() == 2 && in[0] == in[1] ? in[0] : Shape{};
  }
  static constexpr Kept kept(Shape) { return Kept::of(true, false); }
};

namespace detail {

template <class J, class R>
concept JoinFunctions = requires(R x) {
  { J::value(x, x) } -> std::same_as<R>;
  { J::first_slope(x, x) } -> std::same_as<R>;
  { J::second_slope(x, x) } -> std::same_as<R>;
};

}  // namespace detail

/// An own rule of elements, see ElementJoin.
template <class J>
concept OwnElementJoin = JoinRule<J> && std::derived_from<J, ElementJoin<J>> &&
    detail::JoinFunctions<J, float> && detail::JoinFunctions<J, double>;

}  // namespace tandem
