// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MaxPool2d, AvgPool2d and GlobalAvgPool.

#include <tandem/core/geometry.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/graph/neighbourhood.hpp>
#include <tandem/layers/options.hpp>

namespace tandem {

namespace detail {

template <class... Options>
struct PoolLayer {
  static constexpr LayerOptions options = gather_pool_options<Options...>();
  static constexpr LayerKind kind = LayerKind::pool;

  static constexpr Fault fault(Shape in) {
    if (in.rank != 3) {
      return Fault::not_an_image;
    }
    Window const w = options.window;
    if (2 * w.padding.height > w.kernel.height || 2 * w.padding.width > w.kernel.width) {
      return Fault::padding;
    }
    Extent2d const out = w.positions({in[1], in[2]});
    return out.height < 1 || out.width < 1 ? Fault::window_too_large : Fault::none;
  }
  static constexpr PoolGeometry geometry(Shape in) {
    Extent2d const extent{in[1], in[2]};
    return {in[0], extent, options.window.positions(extent), options.window};
  }
  static constexpr Shape output(Shape in) {
    Extent2d const out = options.window.positions({in[1], in[2]});
    return image_shape(in[0], out.height, out.width);
  }
  static constexpr Columns columns(Shape) { return Columns::alike(); }
};

}  // namespace detail

namespace detail {

template <class... Options>
struct MaxPool2dIsSound {
  static constexpr bool value = true;
  static_assert((WindowOption<Options> && ...),
                "MaxPool2d<Options...>: options are Kernel, Stride and Padding");
};

}  // namespace detail

/// The largest cell of each window; the first among equals. Options: Kernel, Stride, Padding.
///
/// Shapes: x (B, C, H, W); y (B, C, H', W') as Conv2d's. Padding never wins.
/// Saves:  which cell won, one 32-bit integer an element of y.
/// The primary template is the error path.
template <class... OptionsAreTypesSuchAsKernel3>
struct MaxPool2d {
  static constexpr std::string_view name = "MaxPool2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::MaxPool2dIsSound<OptionsAreTypesSuchAsKernel3...>::value);
};

template <class... Options>
  requires(WindowOption<Options>&&...)
struct MaxPool2d<Options...> : detail::PoolLayer<Options...> {
  using layer = MaxPool2d;
  static constexpr std::string_view name = "MaxPool2d";
  static constexpr Neighbourhood neighbourhood(Shape) {
    return {.local = true, .window = MaxPool2d::options.window, .lowest = true};
  }
};

namespace detail {

template <class... Options>
struct AvgPool2dIsSound {
  static constexpr bool value = true;
  static_assert((AveragePoolOption<Options> && ...),
                "AvgPool2d<Options...>: options are Kernel, Stride, Padding and ExcludePadding");
};

}  // namespace detail

/// The average of each window, padding counted as zeros unless ExcludePadding.
///
/// Shapes: x (B, C, H, W); y (B, C, H', W') as Conv2d's. Saves nothing.
/// The primary template is the error path.
template <class... OptionsAreTypesSuchAsKernel3>
struct AvgPool2d {
  static constexpr std::string_view name = "AvgPool2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::AvgPool2dIsSound<OptionsAreTypesSuchAsKernel3...>::value);
};

template <class... Options>
  requires(AveragePoolOption<Options>&&...)
struct AvgPool2d<Options...> : detail::PoolLayer<Options...> {
  using layer = AvgPool2d;
  static constexpr std::string_view name = "AvgPool2d";
  /// What it divides by must not depend on where the border is.
  static constexpr Neighbourhood neighbourhood(Shape) {
    Window const& window = AvgPool2d::options.window;
    bool const alike = AvgPool2d::options.count_padding || window.padding == Extent2d{0, 0};
    return {.local = alike, .window = window};
  }
};

/// The average of each channel. Shapes: x (B, C, H, W); y (B, C), a vector that Linear takes.
struct GlobalAvgPool {
  using layer = GlobalAvgPool;
  static constexpr std::string_view name = "GlobalAvgPool";
  static constexpr Fault fault(Shape in) {
    return in.rank == 3 ? Fault::none : Fault::not_an_image;
  }
  static constexpr Shape output(Shape in) { return vector_shape(in[0]); }
  static constexpr Columns columns(Shape) { return Columns::alike(); }
};

}  // namespace tandem
