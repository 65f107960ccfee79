// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention: of each row of a sequence to the others, by heads, from one packed input.

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <tandem/graph/columns.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/layers/activation.hpp>

namespace tandem {

/// A row looks at itself and the rows before it only.
struct Causal {
  static constexpr bool causal = true;
};

/// So many heads of keys and values, each shared by as many heads of queries.
template <int Count>
struct KeyHeads {
  static constexpr int key_heads = Count;
};

template <class Option>
concept AttentionOption = std::same_as<Option, Causal> || DropoutRate<Option> || requires {
  { Option::key_heads } -> std::convertible_to<int>;
};

namespace detail {

struct AttentionOptions {
  int key_heads = 0;
  bool causal = false;
  double dropout = 0.0;
};

template <int Heads, class... Options>
constexpr AttentionOptions gather_attention_options() {
  AttentionOptions all{.key_heads = Heads};
  (
      [&] {
        if constexpr (requires { Options::key_heads; }) {
          all.key_heads = Options::key_heads;
        } else if constexpr (requires { Options::causal; }) {
          all.causal = Options::causal;
        } else {
          all.dropout = Options::value;
        }
      }(),
      ...);
  return all;
}

template <int Heads, class... Options>
constexpr bool attention_is_sound() {
  if constexpr (Heads < 1 || !(AttentionOption<Options> && ...)) {
    return false;
  } else {
    constexpr int key_heads = gather_attention_options<Heads, Options...>().key_heads;
    return key_heads >= 1 && Heads % (key_heads >= 1 ? key_heads : 1) == 0;
  }
}

template <int Heads, class... Options>
struct AttentionIsSound {
  static constexpr bool value = true;
  static_assert(attention_is_sound<Heads, Options...>(),
                "Attention<Heads, Options...>: give a positive number of heads; options are "
                "Causal, KeyHeads<K> with a K that divides Heads, and a dropout such as "
                "Percent<10>");
};

}  // namespace detail

/// y = softmax(q kᵀ / sqrt(D)) v, for each head. Options: Causal, KeyHeads<K>, and a rate such as
/// Percent<10>: in training so many of the probabilities are dropped, the others scaled up.
///
/// Shapes: x (B, T, (Heads + 2 K) D), a row [queries of all heads | keys | values]; y (B, T,
///         Heads D). Rows behind a sample's length are no keys, and give 0.
/// Saves:  each row's normaliser, B T Heads elements, and views of x and y, until backward.
/// Cost:   2 T² Heads D multiply-accumulates a sample, causal about half of them; backward 2.5
///         times as many. The dropout's mask depends on (seed, step, sample, layer, head, row, key)
///         only and is drawn again in backward.
/// Source: Vaswani et al., arXiv:1706.03762; Ainslie et al., arXiv:2305.13245 (key heads)
/// The primary template is the error path.
template <int Heads, class... Options>
struct Attention {
  static constexpr std::string_view name = "Attention";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::AttentionIsSound<Heads, Options...>::value);
};

template <int Heads, class... Options>
  requires(detail::attention_is_sound<Heads, Options...>())
struct Attention<Heads, Options...> {
  using layer = Attention;
  static constexpr std::string_view name = "Attention";
  static constexpr detail::AttentionOptions options =
      detail::gather_attention_options<Heads, Options...>();
  static constexpr int heads = Heads;
  static constexpr int key_heads = options.key_heads;
  static constexpr bool causal = options.causal;
  static constexpr double dropout = options.dropout;
  static constexpr bool in_chunks = causal;

  /// D, of one head.
  static constexpr int width(Shape in) { return in[1] / (Heads + 2 * key_heads); }

  static constexpr Fault fault(Shape in) {
    if (in.rank != 2 || !in.timed) {
      return Fault::not_timed;
    }
    return in[1] % (Heads + 2 * key_heads) == 0 ? Fault::none : Fault::heads;
  }
  static constexpr Shape output(Shape in) { return timed_shape(in[0], Heads * width(in)); }
  static constexpr Kept kept(Shape in) {
    return Kept::of(true, true, 0, std::int64_t{in[0]} * Heads);
  }
  /// Of keys and values.
  static constexpr std::int64_t hands_back(Shape in) {
    return std::int64_t{in[0]} * 2 * key_heads * width(in);
  }
  /// By heads: a rank has the queries of its heads and the keys and values that they read.
  static constexpr Columns columns(Shape in) {
    int const size = width(in);
    int const keys = key_heads * size;
    return {.in = {3, {Heads * size, keys, keys}, {size, size, size}},
            .out = {1, {Heads * size}, {size}}};
  }
  static constexpr std::int64_t macs(Shape in) {
    std::int64_t const pairs =
        causal ? std::int64_t{in[0]} * (in[0] + 1) / 2 : std::int64_t{in[0]} * in[0];
    return 2 * pairs * Heads * width(in);
  }
};

}  // namespace tandem
