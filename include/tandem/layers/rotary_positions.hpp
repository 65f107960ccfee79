// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RotaryPositions: queries and keys turned by angles that grow with their time.

#include <concepts>
#include <string_view>

#include <tandem/graph/columns.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/layers/options.hpp>

namespace tandem {

/// What the angles of RotaryPositions are powers of.
template <int Value>
struct Base {
  static constexpr double base = detail::at_least(2, Value);
  static_assert(Value >= 2, "Base<Value>: give a number of 2 or more");
};

template <class Option>
concept RotaryOption = requires {
  { Option::key_heads } -> std::convertible_to<int>;
}
|| requires {
  { Option::base } -> std::convertible_to<double>;
};

namespace detail {

struct RotaryOptions {
  int heads;
  int key_heads;
  double base = 10000.0;

  // Of a row of queries, keys and values; those that are turned stand first.
  [[nodiscard]] constexpr int all() const { return heads + 2 * key_heads; }
  [[nodiscard]] constexpr int turned() const { return heads + key_heads; }
};

template <int Heads, class... Options>
constexpr RotaryOptions rotary_options() {
  RotaryOptions options{Heads, Heads};
  (
      [&] {
        if constexpr (requires { Options::key_heads; }) {
          options.key_heads = Options::key_heads;
        } else {
          options.base = Options::base;
        }
      }(),
      ...);
  return options;
}

template <int Heads, class... Options>
struct RotaryIsSound {
  static constexpr bool value = true;
  static_assert(Heads >= 1 && (RotaryOption<Options> && ...),
                "RotaryPositions<Heads, Options...>: give a positive number of heads; options are "
                "KeyHeads<K> and Base<10000>");
};

}  // namespace detail

/// The queries and keys of a row rotated, ahead of an Attention with the same heads. Options:
/// KeyHeads (as many as Heads), Base (10000).
///
/// A row is (Heads + 2 KeyHeads) heads of D numbers, D even: queries, keys, values. Number i of a
/// query or key and number i + D / 2 are a pair (Llama's convention; the paper pairs neighbours),
/// turned by t Base^(-2 i / D).
///
/// Shapes: x (B, T, (Heads + 2 KeyHeads) D); y as x.
/// Source: Su et al., arXiv:2104.09864
/// The primary template is the error path.
template <int Heads, class... Options>
struct RotaryPositions {
  static constexpr std::string_view name = "RotaryPositions";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::RotaryIsSound<Heads, Options...>::value);
};

template <int Heads, class... Options>
  requires(Heads >= 1 && (RotaryOption<Options> && ...))
struct RotaryPositions<Heads, Options...> {
  using layer = RotaryPositions;
  static constexpr std::string_view name = "RotaryPositions";
  static constexpr bool in_chunks = true;
  static constexpr detail::RotaryOptions options = detail::rotary_options<Heads, Options...>();

  static constexpr Fault fault(Shape in) {
    if (!in.timed || in.rank != 2) {
      return Fault::not_timed;
    }
    return in[1] % (2 * options.all()) == 0 ? Fault::none : Fault::heads;
  }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Kept kept(Shape) { return Kept::of(false, false); }
  static constexpr Columns columns(Shape in) {
    int const size = in[1] / options.all();
    int const keys = options.key_heads * size;
    ColumnParts const parts{3, {options.heads * size, keys, keys}, {size, size, size}};
    return {.in = parts, .out = parts};
  }
};

}  // namespace tandem
