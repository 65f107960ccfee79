// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Linear, a matrix product, and Flatten, which makes a vector of an image for it.

#include <tandem/graph/columns.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/layers/init_options.hpp>
#include <tandem/layers/options.hpp>
#include <tandem/layers/rows.hpp>

namespace tandem {

template <class Option>
concept LinearOption = std::same_as<Option, NoBias> || InitOption<Option>;

namespace detail {

template <int Out, class... Options>
struct LinearIsSound {
  static constexpr bool value = true;
  static_assert(Out >= 1 && (LinearOption<Options> && ...),
                "Linear<Out, Options...>: give a positive number of outputs; options are NoBias, "
                "InitNormal and InitUniform");
};

}  // namespace detail

/// y = x weightᵀ + bias, each row of a sequence. Options: NoBias, an initial law, as InitNormal.
///
/// Shapes: x (B, T, In) or (B, In), weight (Out, In), bias (Out); y (B, T, Out) or (B, Out).
/// Cost:   In Out multiply-accumulates a row, each of three passes.
/// Init:   uniform in ±1/sqrt(In), as PyTorch; with a law of the weight's the bias is 0.
/// The primary template is the error path.
template <int OutputsAlone, class... Options>
struct Linear {
  static constexpr std::string_view name = "Linear";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::LinearIsSound<OutputsAlone, Options...>::value);
};

template <int Out, class... Options>
  requires(Out >= 1 && (LinearOption<Options> && ...))
struct Linear<Out, Options...> {
  using layer = Linear;
  static constexpr std::string_view name = "Linear";
  static constexpr LayerKind kind = LayerKind::linear;
  static constexpr bool bias = !(std::same_as<Options, NoBias> || ...);
  using without_bias = Linear<Out, NoBias>;

  static constexpr Fault fault(Shape in) {
    return detail::has_rows(in) ? Fault::none : Fault::not_a_vector;
  }
  static constexpr Shape output(Shape in) { return detail::with_row_size(in, Out); }
  static constexpr Parameters parameters(Shape in) {
    int const size = detail::row_size(in);
    Init const usual = Init::uniform_fan_in(size);
    Parameter const weight{"weight", {2, {Out, size}}, detail::init_of<Options...>(usual)};
    if constexpr (bias) {
      bool const given = (InitOption<Options> || ...);
      return Parameters{weight,
                        Parameter{"bias", vector_shape(Out), given ? Init::constant(0.0F) : usual}};
    } else {
      return Parameters{weight};
    }
  }
  static constexpr Kept kept(Shape in) { return in.timed ? Kept::of(true, false) : Kept{}; }
  static constexpr std::int64_t macs(Shape in) { return in.elements() * Out; }
};

/// The same numbers as one vector. Shapes: x (B, C, H, W); y (B, C H W). A view: nothing is copied.
struct Flatten {
  using layer = Flatten;
  static constexpr std::string_view name = "Flatten";
  static constexpr bool is_view = true;
  static constexpr LayerKind kind = LayerKind::flatten;
  static constexpr Shape output(Shape in) { return vector_shape(static_cast<int>(in.elements())); }
  /// A channel of an image are neighbours in the vector.
  static constexpr Columns columns(Shape in) {
    if (in.rank != 3) {
      return {};
    }
    return {.in = ColumnParts::whole(in[0]),
            .out = {1, {static_cast<int>(in.elements())}, {in[1] * in[2]}}};
  }
};

}  // namespace tandem
