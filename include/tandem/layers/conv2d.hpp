// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Conv2d: a convolution over the height and width of an image.

#include <type_traits>

#include <tandem/core/geometry.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/graph/neighbourhood.hpp>
#include <tandem/layers/options.hpp>

namespace tandem {

namespace detail {

template <int Out, class... Options>
struct Conv2dIsSound {
  static constexpr bool value = true;
  static_assert(Out >= 1, "Conv2d<Out, Options...>: give a positive number of output channels");
  static_assert((ConvolutionOption<Options> && ...),
                "Conv2d<Out, Options...>: options are Kernel, Stride, Padding, Dilation, Groups "
                "and NoBias");
};

}  // namespace detail

/// y = x ⋆ weight + bias, over images. Options: Kernel, Stride, Padding,
/// Dilation, Groups, NoBias.
///
/// Shapes: x (B, In, H, W), weight (Out, In / Groups, kernel height, kernel width), bias (Out);
///         y (B, Out, H', W') with H' = floor((H + 2 padding - reach) / stride) + 1,
///         reach = (kernel - 1) dilation + 1.
/// Cost:   Out H' W' (In / Groups) kernel area multiply-accumulates a sample, each of three passes.
/// Init:   uniform in ±1/sqrt(fan-in), as PyTorch.
/// The primary template is the error path. Its pack's name is all of ours that compilers print for
/// a number among types, as in Conv2d<16, 3>.
template <int Out, class... OptionsAreTypesSuchAsKernel3>
struct Conv2d {
  static constexpr std::string_view name = "Conv2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::Conv2dIsSound<Out, OptionsAreTypesSuchAsKernel3...>::value);
};

template <int Out, class... Options>
  requires(Out >= 1 && (ConvolutionOption<Options> && ...))
struct Conv2d<Out, Options...> {
  using layer = Conv2d;
  static constexpr std::string_view name = "Conv2d";
  static constexpr detail::LayerOptions options = detail::gather_options<Options...>();
  static constexpr bool bias = options.bias;
  using without_bias = std::conditional_t<bias, Conv2d<Out, Options..., NoBias>, Conv2d>;
  static constexpr LayerKind kind = options.window == Window{} && options.groups == 1
                                        ? LayerKind::pointwise
                                        : LayerKind::convolution;

  static constexpr Fault fault(Shape in) {
    if (in.rank != 3) {
      return Fault::not_an_image;
    }
    if (in[0] % options.groups != 0 || Out % options.groups != 0) {
      return Fault::groups;
    }
    Extent2d const out = options.window.positions({in[1], in[2]});
    return out.height < 1 || out.width < 1 ? Fault::window_too_large : Fault::none;
  }

  static constexpr ConvolutionGeometry geometry(Shape in) {
    Extent2d const extent{in[1], in[2]};
    return {.in_channels = in[0],
            .out_channels = Out,
            .groups = options.groups,
            .in = extent,
            .out = options.window.positions(extent),
            .window = options.window};
  }
  /// Of a slice of it: of these channels of x and of y, in as many groups as they are.
  static constexpr ConvolutionGeometry geometry(Shape in, Shape out) {
    ConvolutionGeometry own = geometry(in);
    own.groups = own.groups == 1 ? 1 : own.groups * out[0] / Out;
    own.out_channels = out[0];
    return own;
  }

  static constexpr Neighbourhood neighbourhood(Shape) {
    return {.local = true, .window = options.window};
  }
  /// Groups see no channels of each other.
  static constexpr Columns columns(Shape in) {
    if (options.groups == 1) {
      return {};
    }
    return {.in = {1, {in[0]}, {in[0] / options.groups}},
            .out = {1, {Out}, {Out / options.groups}}};
  }

  static constexpr Shape output(Shape in) {
    Extent2d const out = options.window.positions({in[1], in[2]});
    return image_shape(Out, out.height, out.width);
  }

  static constexpr Parameters parameters(Shape in) {
    int const maps = in[0] / options.groups;
    Extent2d const kernel = options.window.kernel;
    std::int64_t const fan_in = std::int64_t{maps} * kernel.height * kernel.width;
    Parameter const weight{.name = "weight",
                           .shape = {4, {Out, maps, kernel.height, kernel.width}},
                           .init = Init::uniform_fan_in(fan_in)};
    if constexpr (bias) {
      return Parameters{weight, Parameter{.name = "bias",
                                          .shape = vector_shape(Out),
                                          .init = Init::uniform_fan_in(fan_in)}};
    } else {
      return Parameters{weight};
    }
  }

  static constexpr std::int64_t macs(Shape in) { return geometry(in).macs(); }
};

}  // namespace tandem
