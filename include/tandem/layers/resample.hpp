// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pad2d and Upsample: images with more rows and columns, made from those that there are.

#include <concepts>
#include <string_view>

#include <tandem/core/geometry.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/layers/options.hpp>

namespace tandem {

/// How a Pad2d fills the border: with zeros; with the image mirrored at its outermost pixels, those
/// not repeated; with the nearest pixel; with the other side of the image.
struct Zeros {
  static constexpr PaddingMode padding_mode = PaddingMode::zeros;
};
struct Reflect {
  static constexpr PaddingMode padding_mode = PaddingMode::reflect;
};
struct Replicate {
  static constexpr PaddingMode padding_mode = PaddingMode::replicate;
};
struct Circular {
  static constexpr PaddingMode padding_mode = PaddingMode::circular;
};

template <class Option>
concept PadOption = requires {
  Option::padding;
}
|| requires { Option::padding_mode; };

namespace detail {

template <class... Options>
constexpr PaddingMode padding_mode_of() {
  PaddingMode mode = PaddingMode::zeros;
  [[maybe_unused]] auto const apply = [&]<class Option>(Option const*) {
    if constexpr (requires { Option::padding_mode; }) {
      mode = Option::padding_mode;
    }
  };
  (apply(static_cast<Options const*>(nullptr)), ...);
  return mode;
}

template <class... Options>
struct Pad2dIsSound {
  static constexpr bool value = true;
  static_assert(
      (PadOption<Options> && ...),
      "Pad2d<Options...>: options are Padding, and Zeros, Reflect, Replicate or Circular");
};

}  // namespace detail

/// x with rows and columns around it: Pad2d<Padding<1>, Reflect>, before a Conv2d that is not
/// padded, is PyTorch's padding_mode. Options: Padding (0), and Zeros (the default), Reflect,
/// Replicate or Circular.
///
/// Shapes: x (B, C, H, W); y (B, C, H + 2 padding, W + 2 padding).
/// The primary template is the error path.
template <class... PaddingAndMode>
struct Pad2d {
  static constexpr std::string_view name = "Pad2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::Pad2dIsSound<PaddingAndMode...>::value);
};

template <PadOption... Options>
struct Pad2d<Options...> {
  using layer = Pad2d;
  static constexpr std::string_view name = "Pad2d";
  static constexpr Extent2d padding = detail::gather_options<Options...>().window.padding;
  static constexpr PaddingMode mode = detail::padding_mode_of<Options...>();

  static constexpr Fault fault(Shape in) {
    if (in.rank != 3) {
      return Fault::not_an_image;
    }
    int const own = mode == PaddingMode::reflect ? 1 : 0;  // the outermost pixel is not repeated
    bool const bounded = mode == PaddingMode::reflect || mode == PaddingMode::circular;
    bool const fits = padding.height + own <= in[1] && padding.width + own <= in[2];
    return bounded && !fits ? Fault::border : Fault::none;
  }
  static constexpr Shape output(Shape in) {
    return image_shape(in[0], in[1] + 2 * padding.height, in[2] + 2 * padding.width);
  }
  static constexpr Kept kept(Shape) { return Kept::of(false, false); }
};

/// How an Upsample fills what is between pixels: with the nearest; with a mean of the nearest two
/// of each axis, by their distance (PyTorch's, with align_corners off).
struct Nearest {};
struct Bilinear {};

template <class Mode>
concept UpsampleMode = std::same_as<Mode, Nearest> || std::same_as<Mode, Bilinear>;

namespace detail {

template <int Scale, class Mode>
struct UpsampleIsSound {
  static constexpr bool value = true;
  static_assert(Scale >= 1 && UpsampleMode<Mode>,
                "Upsample<Scale, Mode>: give a positive number, and Nearest or Bilinear");
};

}  // namespace detail

/// Scale times as many rows and columns. Mode: Nearest (the default) or Bilinear.
///
/// Shapes: x (B, C, H, W); y (B, C, Scale H, Scale W).
/// The primary template is the error path.
template <int Scale, class Mode = Nearest>
struct Upsample {
  static constexpr std::string_view name = "Upsample";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::UpsampleIsSound<Scale, Mode>::value);
};

template <int Scale, UpsampleMode Mode>
  requires(Scale >= 1)
struct Upsample<Scale, Mode> {
  using layer = Upsample;
  static constexpr std::string_view name = "Upsample";
  static constexpr bool bilinear = std::same_as<Mode, Bilinear>;

  static constexpr Fault fault(Shape in) {
    return in.rank == 3 ? Fault::none : Fault::not_an_image;
  }
  static constexpr Shape output(Shape in) {
    return image_shape(in[0], Scale * in[1], Scale * in[2]);
  }
  static constexpr Kept kept(Shape) { return Kept::of(false, false); }
};

}  // namespace tandem
