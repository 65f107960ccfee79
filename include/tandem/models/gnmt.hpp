// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GNMT: a recurrent encoder and decoder with attention that translate, in the layout of NVIDIA's
/// GNMT v2, which MLPerf took over.

#include <type_traits>

#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/bahdanau.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/init_options.hpp>
#include <tandem/layers/options.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/layers/vocabulary.hpp>

namespace tandem::models {

/// Of a Gnmt: the decoder's words have a matrix of their own.
struct OwnWords {};

namespace gnmt {

// What Let names: the encoder's rows, those of the decoder's first layer, and the rows of the first
// that attention gives for each of the second.
struct Memory;
struct Query;
struct Context;

using Init01 = InitUniform<1, 10>;
using Bias01 = InitBias<Init01>;

// Before each recurrent layer, always a part: names are the same with and without a dropout.
template <class... Options>
struct DropoutAt {
  using type = Sequential<>;
};
template <class First, class... Others>
struct DropoutAt<First, Others...> : DropoutAt<Others...> {};
template <DropoutRate First, class... Others>
struct DropoutAt<First, Others...> {
  using type = Dropout<First>;
};

template <class... Options>
inline constexpr bool own_words = (std::is_same_v<Options, OwnWords> || ...);

template <int V, int H>
struct Words : Embedding<V, H, Init01> {};
template <int V, int H, bool Own>
struct Said
    : std::conditional_t<Own, Embedding<V, H, Init01>, Embedding<V, H, Shares<Words<V, H>>>> {};

template <int H, class Drop, class... More>
struct Step : Sequential<Drop, Lstm<H, Init01, Bias01, More...>> {};
/// A layer further up of the encoder, and of the decoder.
template <int H, class Drop>
struct Deep : Residual<Step<H, Drop>> {};
template <int H, class Drop>
struct DeepWithContext : Residual<Sequential<Concat<Sequential<>, Use<Context>>, Step<H, Drop>>> {};

template <int H>
struct Look : Join<Bahdanau<H, Init01>, Use<Query>, Use<Memory>> {};
template <int H, class Drop>
struct Second : Sequential<Concat<Use<Query>, Use<Context>>, Step<H, Drop>> {};
template <int V, int H, bool Own>
struct SaidSoFar : Sequential<Input<1>, Said<V, H, Own>> {};
template <int V>
struct Classifier : Vocabulary<V, Smoothing<Percent<10>>, PerSample, Init01, Bias01> {};

template <int V, int H, int N, class Drop, bool Own>
struct Body : Sequential<Words<V, H>, Step<H, Drop, Bidirectional>, Step<H, Drop>,
                         Repeat<N - 2, Deep<H, Drop>>, Let<Memory>, SaidSoFar<V, H, Own>,
                         Step<H, Drop>, Let<Query>, Look<H>, Let<Context>, Second<H, Drop>,
                         Repeat<N - 2, DeepWithContext<H, Drop>>, Classifier<V>> {};
template <int V, int H, int N, class Drop, bool Own>
  requires(N <= 2)
struct Body<V, H, N, Drop, Own>
    : Sequential<Words<V, H>, Step<H, Drop, Bidirectional>, Step<H, Drop>, Let<Memory>,
                 SaidSoFar<V, H, Own>, Step<H, Drop>, Let<Query>, Look<H>, Let<Context>,
                 Second<H, Drop>, Classifier<V>> {};

template <int N, class... Options>
struct IsSound {
  static constexpr bool value = true;
  static_assert(
      N >= 2 && ((DropoutRate<Options> || std::is_same_v<Options, OwnWords>)&&...),
      "Gnmt<V, H, N, T, Options...>: give two layers or more; options are a dropout, such "
      "as Percent<20>, and OwnWords");
};

}  // namespace gnmt

/// A GNMT v2 of N layers of H numbers in the encoder and as many in the decoder, on sentences of at
/// most T of V tokens, such as Pairs gives. Options: a dropout of each recurrent layer's input,
/// such as the source's Percent<20>; OwnWords, else the decoder shares the encoder's words.
///
///   encoder   words; Lstm in both directions; Lstm; from the third on x + Lstm(x)
///   decoder   words; Lstm, whose rows q look at the encoder's: c; Lstm([q, c]); from the third on
///             x + Lstm([x, c]); logits with a bias, targets smoothed by 0.1, the loss a sentence's
///
/// (20 N + 10) H² + (16 N + 10) H + 1 + (2 H + 1) V parameters, with OwnWords V H more: 160,015,617
/// of <32000, 1024, 4>.
/// Top-level parts, as Split counts them: of the encoder N + 1, its words and its layers; of the
/// decoder its words, its first layer, the attention, N - 1 layers, the criterion, N + 3. Where a
/// cut is, the values that are read further on go along: Split<N + 1>, Split<N + 3> sends the
/// encoder's rows only.
/// Init:   uniform in ±0.1 of all weights and of the biases of inputs and logits; those of states
///         0; attention's g 1/√H, its b 0.
/// Recipe of the source, with 128 sentences a device and 1,024 in all, for so many steps:
///
///   Trainer<Gnmt<32000, 1024, 4, 50, Percent<20>>, …> trainer{
///       {.batch = 1024,
///        .optimizer = Adam{.learning_rate = 2e-3F},
///        .schedule = {Halvings{.begin = steps * 2 / 3 - 200, .every = steps / 12, .most = 4},
///                     ExponentialWarmUp{.steps = 200, .start = 0.01}},
///        .clip_norm = 5.0}};
///
/// Source: Wu et al., arXiv:1609.08144; NVIDIA, DeepLearningExamples, GNMT v2
template <int V, int H, int N, int T = 50, class... Options>
struct Gnmt : Network<Inputs<Tokens<T, V>, Tokens<T, V>>,
                      gnmt::Body<V, H, N, typename gnmt::DropoutAt<Options...>::type,
                                 gnmt::own_words<Options...>>> {
  static_assert(gnmt::IsSound<N, Options...>::value);
};

}  // namespace tandem::models
