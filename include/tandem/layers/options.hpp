// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Options of layers as types: Conv2d<64, Kernel<3>, Stride<2>, Padding<1>, NoBias>.
///
/// Options come in any order; a missing one has PyTorch's default.

#include <concepts>

#include <tandem/core/geometry.hpp>

namespace tandem {

namespace detail {

// Options at fault keep a value that works: their sentence, which stands last, stays the only
// error.
constexpr int at_least(int least, int value) { return value < least ? least : value; }

}  // namespace detail

namespace detail {

template <int Height, int Width>
struct KernelIsSound {
  static constexpr bool value = true;
  static_assert(Height >= 1 && Width >= 1, "Kernel<Height, Width>: give positive numbers");
};

}  // namespace detail

/// Height and width of a window; one number means a square.
template <int Height, int Width = Height>
struct Kernel {
  static constexpr Extent2d kernel{detail::at_least(1, Height), detail::at_least(1, Width)};
  static_assert(detail::KernelIsSound<Height, Width>::value);
};

/// How far a window moves, in rows and columns; a pool's default is its kernel, a convolution's 1.
template <int Height, int Width = Height>
struct Stride {
  static constexpr Extent2d stride{detail::at_least(1, Height), detail::at_least(1, Width)};
  static_assert(Height >= 1 && Width >= 1, "Stride<Height, Width>: give positive numbers");
};

/// Rows and columns added on each side.
template <int Height, int Width = Height>
struct Padding {
  static constexpr Extent2d padding{detail::at_least(0, Height), detail::at_least(0, Width)};
  static_assert(Height >= 0 && Width >= 0, "Padding<Height, Width>: give numbers of 0 or more");
};

/// Rows and columns from one cell of a convolution's kernel to the next.
template <int Height, int Width = Height>
struct Dilation {
  static constexpr Extent2d dilation{detail::at_least(1, Height), detail::at_least(1, Width)};
  static_assert(Height >= 1 && Width >= 1, "Dilation<Height, Width>: give positive numbers");
};

/// Rows and columns that a transposed convolution adds behind its last: of those sizes that give
/// one size when a stride divides them, the larger.
template <int Height, int Width = Height>
struct OutputPadding {
  static constexpr Extent2d output_padding{detail::at_least(0, Height), detail::at_least(0, Width)};
  static_assert(Height >= 0 && Width >= 0,
                "OutputPadding<Height, Width>: give numbers of 0 or more");
};

/// Channels in this many independent groups.
template <int Count>
struct Groups {
  static constexpr int groups = detail::at_least(1, Count);
  static_assert(Count >= 1, "Groups<Count>: give a positive number");
};

/// No bias is added.
struct NoBias {
  static constexpr bool bias = false;
};

/// An average over the cells inside the image only.
struct ExcludePadding {
  static constexpr bool count_padding = false;
};

namespace detail {

template <long Numerator, long Denominator>
struct EpsilonIsSound {
  static constexpr bool value = true;
  static_assert(Numerator > 0 && Denominator > 0,
                "Epsilon<Numerator, Denominator>: give positive numbers");
};

}  // namespace detail

/// Numerator / Denominator, as the small number that a batch norm adds to a variance.
template <long Numerator, long Denominator>
struct Epsilon {
  static constexpr double epsilon =
      static_cast<double>(Numerator) / static_cast<double>(Denominator != 0 ? Denominator : 1);
  static_assert(detail::EpsilonIsSound<Numerator, Denominator>::value);
};

/// Weight of the newest batch in a running average.
template <int Numerator, int Denominator>
struct Momentum {
  static constexpr double momentum =
      static_cast<double>(Numerator) / (Denominator != 0 ? Denominator : 1);
  static_assert(Numerator >= 0 && Denominator > 0 && Numerator <= Denominator,
                "Momentum<Numerator, Denominator>: give a share from 0 to 1");
};

namespace detail {

// The members that option types carry, gathered into one value.
struct LayerOptions {
  Window window{};
  bool stride_given = false;
  int groups = 1;
  bool bias = true;
  bool count_padding = true;
  double epsilon = 1e-5;
  double momentum = 0.1;
};

template <class Option>
constexpr void apply_option(LayerOptions& options) {
  if constexpr (requires { Option::kernel; }) {
    options.window.kernel = Option::kernel;
  } else if constexpr (requires { Option::stride; }) {
    options.window.stride = Option::stride;
    options.stride_given = true;
  } else if constexpr (requires { Option::padding; }) {
    options.window.padding = Option::padding;
  } else if constexpr (requires { Option::dilation; }) {
    options.window.dilation = Option::dilation;
  } else if constexpr (requires { Option::groups; }) {
    options.groups = Option::groups;
  } else if constexpr (requires { Option::bias; }) {
    options.bias = Option::bias;
  } else if constexpr (requires { Option::count_padding; }) {
    options.count_padding = Option::count_padding;
  } else if constexpr (requires { Option::epsilon; }) {
    options.epsilon = Option::epsilon;
  } else if constexpr (requires { Option::momentum; }) {
    options.momentum = Option::momentum;
  }
}

template <class... Options>
constexpr LayerOptions gather_options() {
  LayerOptions options;
  (apply_option<Options>(options), ...);
  return options;
}

// A pool's stride is its kernel unless given.
template <class... Options>
constexpr LayerOptions gather_pool_options() {
  LayerOptions options = gather_options<Options...>();
  if (!options.stride_given) {
    options.window.stride = options.window.kernel;
  }
  return options;
}

}  // namespace detail

template <class Option>
concept WindowOption = requires {
  Option::kernel;
}
|| requires { Option::stride; }
|| requires { Option::padding; };

namespace detail {

// No part of the concept, of which a compiler prints each term.
template <class Option>
inline constexpr bool convolves = requires {
  Option::dilation;
}
|| requires { Option::groups; }
|| requires { Option::bias; };

}  // namespace detail

template <class Option>
concept ConvolutionOption = WindowOption<Option> || detail::convolves<Option>;

template <class Option>
concept TransposedConvolutionOption = ConvolutionOption<Option> || requires {
  Option::output_padding;
};

template <class Option>
concept AveragePoolOption = WindowOption<Option> || requires {
  Option::count_padding;
};

template <class Option>
concept NormOption = requires {
  Option::epsilon;
}
|| requires { Option::momentum; };

}  // namespace tandem
