// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Subsample2d: the parameter-free shortcut of the CIFAR residual networks ("option A").

#include <tandem/core/geometry.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/layers/options.hpp>

namespace tandem {

namespace detail {

template <int Out, int Step>
struct Subsample2dIsSound {
  static constexpr bool value = true;
  static_assert(Out >= 1 && Step >= 1, "Subsample2d<Out, Step>: give positive numbers");
};

}  // namespace detail

/// y[c] = x[c - first] at every Step-th row and column, zero for the added channels, which stand
/// half before and half after (first = (Out - C) / 2).
///
/// Shapes: x (B, C, H, W); y (B, Out, ceil(H / Step), ceil(W / Step)).
/// Source: He, Zhang, Ren, Sun, arXiv:1512.03385, section 4.2.
template <int Out, int Step>
struct Subsample2d {
  using layer = Subsample2d;
  static constexpr std::string_view name = "Subsample2d";
  static constexpr int step = detail::at_least(1, Step);

  static constexpr Fault fault(Shape in) {
    if (in.rank != 3) {
      return Fault::not_an_image;
    }
    if (Out < 1 || Step < 1) {
      return Fault::reported;
    }
    return in[0] <= Out ? Fault::none : Fault::channels;
  }
  static constexpr Shape output(Shape in) {
    return image_shape(Out, (in[1] + step - 1) / step, (in[2] + step - 1) / step);
  }
  static_assert(detail::Subsample2dIsSound<Out, Step>::value);
};

}  // namespace tandem
