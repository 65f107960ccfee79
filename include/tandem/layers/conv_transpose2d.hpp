// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ConvTranspose2d: the gradient of a convolution as a layer, which enlarges an image.

#include <cstdint>
#include <string_view>

#include <tandem/core/geometry.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/layers/options.hpp>

namespace tandem {

namespace detail {

template <class... Options>
constexpr Extent2d output_padding_of() {
  Extent2d padding{0, 0};
  [[maybe_unused]] auto const apply = [&]<class Option>(Option const*) {
    if constexpr (requires { Option::output_padding; }) {
      padding = Option::output_padding;
    }
  };
  (apply(static_cast<Options const*>(nullptr)), ...);
  return padding;
}

// What the convolution would leave out at the far side.
template <class... Options>
constexpr bool output_padding_fits() {
  Extent2d const stride = gather_options<Options...>().window.stride;
  Extent2d const padding = output_padding_of<Options...>();
  return padding.height < stride.height && padding.width < stride.width;
}

template <int Out, class... Options>
struct ConvTranspose2dIsSound {
  static constexpr bool value = true;
  static_assert(Out >= 1,
                "ConvTranspose2d<Out, Options...>: give a positive number of output channels");
  static_assert((TransposedConvolutionOption<Options> && ...),
                "ConvTranspose2d<Out, Options...>: options are Kernel, Stride, Padding, "
                "OutputPadding, Dilation, Groups and NoBias");
  static_assert(output_padding_fits<Options...>(),
                "ConvTranspose2d<Out, Options...>: OutputPadding must be smaller than Stride");
};

}  // namespace detail

/// y = the gradient to its input of the Conv2d with these options, x taken for that of its output,
/// plus bias. Options: Kernel, Stride, Padding, OutputPadding, Dilation, Groups, NoBias.
///
/// Shapes: x (B, In, H, W), weight (In, Out / Groups, kernel height, kernel width), bias (Out);
///         y (B, Out, H', W') with H' = (H - 1) stride + reach + output padding - 2 padding,
///         reach = (kernel - 1) dilation + 1.
/// Cost:   In H W (Out / Groups) kernel area multiply-accumulates a sample, each of three passes.
/// Init:   uniform in ±1/sqrt((Out / Groups) kernel area), as PyTorch.
/// Source: Zeiler, Krishnan, Taylor, Fergus, CVPR 2010
/// The primary template is the error path.
template <int Out, class... OptionsAreTypesSuchAsKernel3>
struct ConvTranspose2d {
  static constexpr std::string_view name = "ConvTranspose2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::ConvTranspose2dIsSound<Out, OptionsAreTypesSuchAsKernel3...>::value);
};

template <int Out, TransposedConvolutionOption... Options>
  requires(Out >= 1 && detail::output_padding_fits<Options...>())
struct ConvTranspose2d<Out, Options...> {
  using layer = ConvTranspose2d;
  static constexpr std::string_view name = "ConvTranspose2d";
  static constexpr detail::LayerOptions options = detail::gather_options<Options...>();
  static constexpr Extent2d output_padding = detail::output_padding_of<Options...>();
  static constexpr bool bias = options.bias;

  static constexpr Fault fault(Shape in) {
    if (in.rank != 3) {
      return Fault::not_an_image;
    }
    if (in[0] % options.groups != 0 || Out % options.groups != 0) {
      return Fault::groups;
    }
    Extent2d const out = extent({in[1], in[2]});
    return out.height < 1 || out.width < 1 ? Fault::all_padding : Fault::none;
  }

  /// Of the convolution whose gradient it is: from y to x.
  static constexpr ConvolutionGeometry geometry(Shape in) {
    Extent2d const small{in[1], in[2]};
    return {.in_channels = Out,
            .out_channels = in[0],
            .groups = options.groups,
            .in = extent(small),
            .out = small,
            .window = options.window};
  }

  static constexpr Shape output(Shape in) {
    Extent2d const out = extent({in[1], in[2]});
    return image_shape(Out, out.height, out.width);
  }

  static constexpr Parameters parameters(Shape in) {
    int const maps = Out / options.groups;
    Extent2d const kernel = options.window.kernel;
    std::int64_t const fan_in = std::int64_t{maps} * kernel.height * kernel.width;
    Parameter const weight{.name = "weight",
                           .shape = {4, {in[0], maps, kernel.height, kernel.width}},
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
  static constexpr Kept kept(Shape) { return Kept::of(true, false); }

 private:
  static constexpr Extent2d extent(Extent2d in) {
    Window const& w = options.window;
    return {(in.height - 1) * w.stride.height + w.reach().height + output_padding.height -
                2 * w.padding.height,
            (in.width - 1) * w.stride.width + w.reach().width + output_padding.width -
                2 * w.padding.width};
  }
};

}  // namespace tandem
