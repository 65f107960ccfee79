// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Embedding, which makes rows of indices, and Positions, which adds a learnt row for each time.

#include <concepts>
#include <cstdint>
#include <string_view>

#include <tandem/graph/layer.hpp>
#include <tandem/graph/network.hpp>
#include <tandem/layers/init_options.hpp>
#include <tandem/layers/row_gradient.hpp>

namespace tandem {

namespace detail {

/// At most an initial law or Shares, and with a law or none RowGradient.
template <class... Options>
constexpr bool are_embedding_options() {
  int const rows = (0 + ... + int{std::same_as<Options, RowGradient>});
  int const inits = (0 + ... + int{InitOption<Options>});
  int const shares = (0 + ... + int{is_shares<Options>});
  return rows + shares <= 1 && inits + shares <= 1 &&
         rows + inits + shares == static_cast<int>(sizeof...(Options));
}

template <int V, int C, class... Options>
struct EmbeddingIsSound {
  static constexpr bool value = true;
  static_assert(V >= 1 && C >= 1 && are_embedding_options<Options...>(),
                "Embedding<V, C, Options...>: give a positive number of indices and of channels; "
                "the options are InitNormal or InitUniform and RowGradient, or Shares<W>");
};

template <class... Options>
struct PositionsIsSound {
  static constexpr bool value = true;
  static_assert(sizeof...(Options) <= 1 && (InitOption<Options> && ...),
                "Positions<Options...>: the option is InitNormal or InitUniform");
};

}  // namespace detail

/// y[t] = weight[index[t]]. Options: an initial law, as InitNormal; RowGradient; or Shares<W>, of
/// an embedding that stands before it.
///
/// Shapes: index (B, T), weight (V, C); y (B, T, C).
/// Cost:   forward copies T C elements a sample; the weight's gradient adds as many and, unless it
///         is a RowGradient, writes V C.
/// Init:   normal with deviation 1, as PyTorch.
/// Order:  Host adds the rows of an index in the order of the microbatch.
/// The primary template is the error path.
template <int V, int C, class... Options>
struct Embedding {
  static constexpr std::string_view name = "Embedding";
  static constexpr bool takes_indices = true;
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::EmbeddingIsSound<V, C, Options...>::value);
};

template <int V, int C, class... Options>
  requires(V >= 1 && C >= 1 && detail::are_embedding_options<Options...>())
struct Embedding<V, C, Options...> : detail::SharesOf<Options...> {
  using layer = Embedding;
  static constexpr std::string_view name = "Embedding";
  static constexpr LayerKind kind = LayerKind::embedding;
  static constexpr bool takes_indices = true;
  static constexpr bool in_chunks = true;
  static constexpr int vocabulary = V;
  static constexpr int channels = C;

  static constexpr Fault fault(Shape in) {
    return in.timed && in.rank == 1 ? Fault::none : Fault::not_tokens;
  }
  static constexpr Shape output(Shape in) { return timed_shape(in[0], C); }
  static constexpr Kept kept(Shape) { return Kept::of(true, false); }
  static constexpr Parameters parameters(Shape in) {
    Parameter weight{"weight", {2, {V, C}}, detail::init_of<Options...>(Init::normal(1.0F))};
    weight.touched.of_sample = has_row_gradient<Options...>() ? in[0] : 0;
    return Parameters{weight};
  }
};

/// y[t] = x[t] + weight[t]. Option: an initial law, as InitNormal.
///
/// Shapes: x (B, T, C), weight (T, C); y (B, T, C).
/// Init:   normal with deviation 1, as an Embedding of times.
/// Order:  Host adds the samples' gradients in the order of the microbatch.
/// The primary template is the error path.
template <class... Options>
struct Positions {
  static constexpr std::string_view name = "Positions";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::PositionsIsSound<Options...>::value);
};

template <class... Options>
  requires(sizeof...(Options) <= 1 && (InitOption<Options> && ...))
struct Positions<Options...> {
  using layer = Positions;
  static constexpr std::string_view name = "Positions";
  static constexpr bool in_chunks = true;

  static constexpr Fault fault(Shape in) {
    return in.timed && in.rank == 2 ? Fault::none : Fault::not_timed;
  }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Kept kept(Shape) { return Kept::of(false, false); }
  static constexpr Parameters parameters(Shape in) {
    return Parameters{
        Parameter{"weight", {2, {in[0], in[1]}}, detail::init_of<Options...>(Init::normal(1.0F))}};
  }
};

}  // namespace tandem
