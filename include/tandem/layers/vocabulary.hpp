// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Vocabulary: the criterion at the end of a language model, which owns or shares the matrix of its
/// words and gives each row's loss.

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <tandem/graph/layer.hpp>
#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/init_options.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/layers/options.hpp>
#include <tandem/layers/row_gradient.hpp>

namespace tandem {

/// So much of each target is spread evenly over all words: Smoothing<Percent<10>>.
template <DropoutRate Share>
struct Smoothing {
  static constexpr double smoothing = Share::value;
};

/// Logits of so many rows at a time, made again in backward: no memory for those of all rows.
template <int Rows>
struct Chunked {
  static constexpr int chunk_rows = Rows;
  static_assert(Rows >= 1, "Chunked<Rows>: give a positive number of rows");
};

/// In training the softmax of a row is over its target and so many words that are drawn, once for
/// the global batch of a step: different ones, the likelier the smaller their number (LogUniform).
/// From each logit goes the logarithm of how often its word was to be expected among them, and a
/// drawn word that is the row's target counts for nothing. All words elsewhere.
/// Source: Jean, Cho, Memisevic, Bengio, arXiv:1412.2007; TensorFlow's sampled_softmax_loss
template <int Words>
struct Sampled {
  static constexpr int sampled_words = Words;
  static_assert(Words >= 1, "Sampled<Words>: give a positive number of words");
};

namespace detail {

template <class Option>
inline constexpr bool is_smoothing = requires {
  { Option::smoothing } -> std::convertible_to<double>;
};
template <class Option>
inline constexpr bool is_chunked = requires {
  { Option::chunk_rows } -> std::convertible_to<int>;
};
template <class Option>
inline constexpr bool is_sampled = requires {
  { Option::sampled_words } -> std::convertible_to<int>;
};

}  // namespace detail

template <class Option>
concept VocabularyOption =
    std::same_as<Option, NoBias> || is_of_criterion<Option> || std::same_as<Option, RowGradient> ||
    detail::is_smoothing<Option> || detail::is_chunked<Option> || detail::is_sampled<Option> ||
    detail::is_shares<Option> || InitOption<Option> || BiasInitOption<Option>;

namespace detail {

struct VocabularyOptions {
  bool bias = true;
  double smoothing = 0.0;
  int chunk_rows = 0;  // 0: all
  int sampled = 0;     // 0: all words
};

template <class... Options>
constexpr VocabularyOptions gather_vocabulary_options() {
  VocabularyOptions all;
  (
      [&] {
        if constexpr (std::same_as<Options, NoBias>) {
          all.bias = false;
        } else if constexpr (is_smoothing<Options>) {
          all.smoothing = Options::smoothing;
        } else if constexpr (is_chunked<Options>) {
          all.chunk_rows = Options::chunk_rows;
        } else if constexpr (is_sampled<Options>) {
          all.sampled = Options::sampled_words;
        }
      }(),
      ...);
  return all;
}

// The first option that is a divisor, else PerToken.
template <class... Options>
struct DivisorOf {
  using type = PerToken;
};
template <class First, class... Others>
struct DivisorOf<First, Others...> : DivisorOf<Others...> {};
template <class First, class... Others>
  requires is_of_criterion<First>
struct DivisorOf<First, Others...> {
  using type = First;
};

template <int V, class... Options>
inline constexpr bool vocabulary_is_known = V >= 1 && (VocabularyOption<Options> && ...);
template <int V, class... Options>
inline constexpr bool samples_fit = gather_vocabulary_options<Options...>().sampled <= V;
template <class... Options>
inline constexpr bool samples_are_not_smoothed = gather_vocabulary_options<Options...>().sampled ==
                                                     0 ||
                                                 gather_vocabulary_options<Options...>().smoothing
                                                     == 0.0;

template <class... Options>
inline constexpr bool rows_are_sampled =
    !has_row_gradient<Options...>() || gather_vocabulary_options<Options...>().sampled > 0;

template <int V, class... Options>
struct VocabularyIsSound {
  static constexpr bool value = true;
  static constexpr bool known = vocabulary_is_known<V, Options...>;
  static constexpr bool fit = samples_fit<V, Options...>;
  static_assert(known,
                "Vocabulary<V, Options...>: give a positive number of words; options are NoBias, "
                "Shares<W>, Smoothing<Percent<10>>, Sampled<Words>, RowGradient, Chunked<Rows>, "
                "PerToken or PerSample, and initial values such as InitNormal<2, 100> or "
                "InitBias<InitUniform<1, 10>>");
  static_assert(!known || fit,
                "Vocabulary<V, Sampled<Words>>: a sample has each word once, so at most V of them");
  static_assert(!known || !fit || samples_are_not_smoothed<Options...>,
                "Vocabulary<V, Sampled<Words>, Smoothing<...>>: a sample cannot be smoothed over "
                "words that it does not have; leave one of the two options out");
  static_assert(!known || rows_are_sampled<Options...>,
                "Vocabulary<V, RowGradient>: a softmax over all words gives each of them a "
                "gradient; add Sampled<Words>, or leave RowGradient out");
};

}  // namespace detail

/// Each row's loss -Σ_v q_v log softmax(x weightᵀ + bias)_v in nats, q the target's, smoothed; a
/// row whose target is -1 has none. A network's last layer, whose loss is the sum over rows divided
/// by the targets of the global batch (PerToken) or by its samples (PerSample).
///
/// Shapes: x (B, T, C), weight (V, C), bias (V), targets (B, T); y (B, T, 3): the loss, what
///         rounding took of it, and 1 where the largest logit is the target's.
/// Saves:  the gradient over the logits, B T V elements; Sampled<S> B T (S + 1); with Chunked
///         nothing but a view of x.
/// Cost:   V C multiply-accumulates a row, each of three passes; Chunked five instead of three.
///         Sampled<S> (S + 1) C, and writes the V C elements of the weight's gradient, with
///         RowGradient only those of its words and of the targets. Where all
///         words are wanted, it takes as many rows at a time as have the memory of those logits, 64
///         or more.
/// Init:   uniform in ±1/sqrt(C), as PyTorch's Linear; with a law of the weight's the bias is 0,
///         or as InitBias says.
/// The primary template is the error path.
template <int V, class... Options>
struct Vocabulary {
  static constexpr std::string_view name = "Vocabulary";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::VocabularyIsSound<V, Options...>::value);
};

template <int V, class... Options>
  requires(detail::vocabulary_is_known<V, Options...>&& detail::samples_fit<V, Options...>&&
               detail::samples_are_not_smoothed<Options...>&& detail::rows_are_sampled<Options...>)
struct Vocabulary<V, Options...> : detail::SharesOf<Options...> {
  using layer = Vocabulary;
  using Divisor = typename detail::DivisorOf<Options...>::type;
  static constexpr std::string_view name = "Vocabulary";
  static constexpr bool is_criterion = true;
  static constexpr bool in_chunks = true;
  static constexpr int classes = V;
  static constexpr detail::VocabularyOptions options =
      detail::gather_vocabulary_options<Options...>();
  static constexpr LayerKind kind = options.sampled > 0 ? LayerKind::other : LayerKind::vocabulary;
  static constexpr bool bias = options.bias;
  static constexpr bool by_rows = has_row_gradient<Options...>();

  static constexpr Fault fault(Shape in) {
    return in.rank == 2 && in.timed ? Fault::none : Fault::not_timed;
  }
  static constexpr Shape output(Shape in) { return timed_shape(in[0], 3); }
  static constexpr Parameters parameters(Shape in) {
    Init const usual = Init::uniform_fan_in(in[1]);
    Parameter weight{"weight", {2, {V, in[1]}}, detail::init_of<Options...>(usual)};
    if (by_rows) {  // the sample's, and each row's target
      weight.touched = {.of_sample = in[0], .of_step = options.sampled};
    }
    if constexpr (bias) {
      bool const given = (InitOption<Options> || ...);
      Init const law = detail::bias_init_of<Options...>(given ? Init::constant(0.0F) : usual);
      Parameter of_bias{"bias", vector_shape(V), law};
      of_bias.touched = weight.touched;
      return Parameters{weight, of_bias};
    } else {
      return Parameters{weight};
    }
  }
  static constexpr Kept kept(Shape in) {
    return Kept::of(true, false, options.chunk_rows > 0 ? 0 : std::int64_t{in[0]} * columns);
  }
  static constexpr std::int64_t macs(Shape in) { return in.elements() * columns; }

 private:
  /// Logits of a row in training.
  static constexpr int columns = options.sampled > 0 ? options.sampled + 1 : V;
};

}  // namespace tandem
