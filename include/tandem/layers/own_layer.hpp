// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ElementLayer and ChannelLayer: what a program derives a layer of its own from that every backend
/// runs, given by functions of one element.
///
///   struct Softsign : ElementLayer<Softsign> {
///     static constexpr std::string_view name = "Softsign";
///     template <class R>
///     TANDEM_HOST_DEVICE static R value(R x) { return x / (1 + std::fabs(x)); }
///     template <class R>
///     TANDEM_HOST_DEVICE static R slope_of_output(R y) {
///       return (1 - std::fabs(y)) * (1 - std::fabs(y));
///     }
///   };

#include <concepts>

#include <tandem/core/config.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/graph/neighbourhood.hpp>

namespace tandem {

/// y = L::value(x), element by element.
///
/// L, which derives from this, has `name`, `value(x)`, and the derivative of y by x in one form:
/// `slope(x)`, `slope_of_output(y)`, or `slope(x, y)`. Only what it reads is kept for backward, and
/// the output often is for the next layer anyway. Functions are static templates of the type that a
/// backend computes in, float or double, and TANDEM_HOST_DEVICE for Cuda.
///
/// Shapes: any, which y keeps.
template <class L>
struct ElementLayer {
  using layer = L;
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Columns columns(Shape) { return Columns::alike(); }
  static constexpr Neighbourhood neighbourhood(Shape) { return Neighbourhood::alone(); }
  static constexpr Kept kept(Shape) {
    return Kept::of(
        !requires(float x) { L::slope_of_output(x); }, !requires(float x) { L::slope(x); });
  }
};

/// y = L::value(x, w), element by element, with a learnt w for each channel: of an image (C, H, W)
/// or a sequence (T, C) each of C, of a vector each element.
///
/// L, which derives from this, has `name`, `initial`, an Init, `value(x, w)`, `slope(x, w)`, the
/// derivative of y by x, and `weight_slope(x, w)`, that by w: as those of an ElementLayer. With
/// `static constexpr bool one_weight = true` all channels share one. The parameter is "weight".
template <class L>
struct ChannelLayer {
  using layer = L;
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Kept kept(Shape) { return Kept::of(true, false); }
  static constexpr bool one_weight = false;
  static constexpr int weights(Shape in) { return L::one_weight ? 1 : in[in.timed ? 1 : 0]; }
  static constexpr Parameters parameters(Shape in) {
    return Parameters{Parameter{"weight", vector_shape(weights(in)), L::initial}};
  }
};

namespace detail {

template <class L, class R>
concept SlopeOfInput = requires(R x) {
  { L::slope(x) } -> std::same_as<R>;
};
template <class L, class R>
concept SlopeOfOutput = requires(R y) {
  { L::slope_of_output(y) } -> std::same_as<R>;
};
template <class L, class R>
concept SlopeOfBoth = requires(R x) {
  { L::slope(x, x) } -> std::same_as<R>;
};
template <class L, class R>
concept ElementFunctions = requires(R x) {
  { L::value(x) } -> std::same_as<R>;
}
&&(SlopeOfInput<L, R> || SlopeOfOutput<L, R> || SlopeOfBoth<L, R>);
template <class L, class R>
concept ChannelFunctions = requires(R x) {
  { L::value(x, x) } -> std::same_as<R>;
  { L::slope(x, x) } -> std::same_as<R>;
  { L::weight_slope(x, x) } -> std::same_as<R>;
};

}  // namespace detail

/// An own layer of elements, see ElementLayer.
template <class L>
concept OwnElementLayer = Layer<L> && std::derived_from<L, ElementLayer<L>> &&
    detail::ElementFunctions<L, float> && detail::ElementFunctions<L, double>;

/// One with a weight a channel, see ChannelLayer.
template <class L>
concept OwnChannelLayer = Layer<L> && std::derived_from<L, ChannelLayer<L>> &&
    detail::ChannelFunctions<L, float> && detail::ChannelFunctions<L, double>;

}  // namespace tandem
