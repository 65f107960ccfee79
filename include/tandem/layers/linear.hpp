// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Linear, a matrix product, and Flatten, which makes a vector of an image for it.

#include <tandem/graph/layer.hpp>
#include <tandem/layers/options.hpp>

namespace tandem {

template <class Option>
concept LinearOption = std::same_as<Option, NoBias>;

namespace detail {

template <int Out, class... Options>
struct LinearIsSound {
  static constexpr bool value = true;
  static_assert(Out >= 1 && (LinearOption<Options> && ...),
                "Linear<Out, Options...>: give a positive number of outputs; the option is NoBias");
};

}  // namespace detail

/// y = x weightᵀ + bias. Option: NoBias.
///
/// Shapes: x (B, In), weight (Out, In), bias (Out); y (B, Out).
/// Cost:   In Out multiply-accumulates a sample, each of three passes.
/// Init:   uniform in ±1/sqrt(In), as PyTorch.
/// The primary template is the error path.
template <int Out, class... Options>
struct Linear {
  static constexpr std::string_view name = "Linear";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::LinearIsSound<Out, Options...>::value);
};

template <int Out, class... Options>
  requires(Out >= 1 && (LinearOption<Options> && ...))
struct Linear<Out, Options...> {
  using layer = Linear;
  static constexpr std::string_view name = "Linear";
  static constexpr bool bias = sizeof...(Options) == 0;

  static constexpr Fault fault(Shape in) {
    return in.rank == 1 ? Fault::none : Fault::not_a_vector;
  }
  static constexpr Shape output(Shape) { return vector_shape(Out); }
  static constexpr Parameters parameters(Shape in) {
    Init const init = Init::uniform_fan_in(in[0]);
    Parameter const weight{"weight", {2, {Out, in[0]}}, init};
    if constexpr (bias) {
      return Parameters{weight, Parameter{"bias", vector_shape(Out), init}};
    } else {
      return Parameters{weight};
    }
  }
  static constexpr std::int64_t macs(Shape in) { return in.elements() * Out; }
};

/// The same numbers as one vector. Shapes: x (B, C, H, W); y (B, C H W). A view: nothing is copied.
struct Flatten {
  using layer = Flatten;
  static constexpr std::string_view name = "Flatten";
  static constexpr bool is_view = true;
  static constexpr LayerKind kind = LayerKind::flatten;
  static constexpr Shape output(Shape in) { return vector_shape(static_cast<int>(in.elements())); }
};

}  // namespace tandem
