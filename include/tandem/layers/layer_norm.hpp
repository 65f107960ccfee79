// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LayerNorm and RmsNorm: each row of a sequence, or a vector, normalised by itself.

#include <concepts>
#include <string_view>

#include <tandem/graph/layer.hpp>
#include <tandem/layers/options.hpp>
#include <tandem/layers/rows.hpp>

namespace tandem {

template <class Option>
concept LayerNormOption = std::same_as<Option, NoBias> || requires {
  Option::epsilon;
};

template <class Option>
concept RmsNormOption = requires {
  Option::epsilon;
};

namespace detail {

template <class... Options>
struct LayerNormIsSound {
  static constexpr bool value = true;
  static_assert((LayerNormOption<Options> && ...),
                "LayerNorm<Options...>: options are Epsilon and NoBias");
};

template <class... Options>
struct RmsNormIsSound {
  static constexpr bool value = true;
  static_assert((RmsNormOption<Options> && ...), "RmsNorm<Options...>: the option is Epsilon");
};

}  // namespace detail

/// y = (x - mean) / sqrt(variance + epsilon) weight + bias, over the last axis. Options: Epsilon
/// (1e-5), NoBias.
///
/// Shapes: x (B, T, C) or (B, C), weight and bias (C); y as x.
/// Saves:  mean and 1 / sqrt(variance + epsilon) of each row, and two sums (C).
/// Init:   weight 1, bias 0.
/// Source: Ba, Kiros, Hinton, arXiv:1607.06450, section 3
/// The primary template is the error path.
template <class... Options>
struct LayerNorm {
  static constexpr std::string_view name = "LayerNorm";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::LayerNormIsSound<Options...>::value);
};

template <LayerNormOption... Options>
struct LayerNorm<Options...> {
  using layer = LayerNorm;
  static constexpr std::string_view name = "LayerNorm";
  static constexpr LayerKind kind = LayerKind::row_norm;
  static constexpr double epsilon = detail::gather_options<Options...>().epsilon;
  static constexpr bool bias = detail::gather_options<Options...>().bias;

  static constexpr Fault fault(Shape in) {
    return detail::has_rows(in) ? Fault::none : Fault::not_a_vector;
  }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Kept kept(Shape in) {
    std::int64_t const channels = detail::row_size(in);
    return Kept::of(true, false, 0, 2 * in.elements() / channels, 2 * channels);
  }
  static constexpr Parameters parameters(Shape in) {
    Shape const channels = vector_shape(detail::row_size(in));
    Parameter const weight{"weight", channels, Init::constant(1.0F)};
    if constexpr (bias) {
      return Parameters{weight, Parameter{"bias", channels, Init::constant(0.0F)}};
    } else {
      return Parameters{weight};
    }
  }
};

/// y = x / sqrt(mean(x²) + epsilon) weight, over the last axis. Option: Epsilon (1e-5, as Llama;
/// PyTorch's default is the type's own, 1.2e-7 in fp32).
///
/// Shapes: x (B, T, C) or (B, C), weight (C); y as x.
/// Saves:  1 / sqrt(mean(x²) + epsilon) of each row, and a sum (C), in the memory of a LayerNorm's.
/// Init:   1.
/// Source: Zhang, Sennrich, arXiv:1910.07467
/// The primary template is the error path.
template <class... Options>
struct RmsNorm {
  static constexpr std::string_view name = "RmsNorm";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::RmsNormIsSound<Options...>::value);
};

template <RmsNormOption... Options>
struct RmsNorm<Options...> {
  using layer = RmsNorm;
  static constexpr std::string_view name = "RmsNorm";
  static constexpr LayerKind kind = LayerKind::row_norm;
  static constexpr double epsilon = detail::gather_options<Options...>().epsilon;

  static constexpr Fault fault(Shape in) {
    return detail::has_rows(in) ? Fault::none : Fault::not_a_vector;
  }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Kept kept(Shape in) {
    std::int64_t const channels = detail::row_size(in);
    return Kept::of(true, false, 0, 2 * in.elements() / channels, 2 * channels);
  }
  static constexpr Parameters parameters(Shape in) {
    return Parameters{
        Parameter{"weight", vector_shape(detail::row_size(in)), Init::constant(1.0F)}};
  }
};

}  // namespace tandem
