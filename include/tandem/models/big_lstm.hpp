// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BigLstm: the recurrent language model of the One Billion Word Benchmark, whose softmax is over a
/// sample of the words.

#include <cstdint>

#include <tandem/graph/layer.hpp>
#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/init_options.hpp>
#include <tandem/layers/options.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/layers/vocabulary.hpp>

namespace tandem::models {

namespace big_lstm {

constexpr Init uniform(double square_of_bound) {
  return Init::uniform(static_cast<float>(tandem::detail::square_root(square_of_bound)));
}

/// Of a matrix of V rows: its source has it in 8 parts, each uniform in ±sqrt(3 / its rows).
template <int V>
struct InitWords {
  static constexpr Init init = uniform(3.0 / ((V + 7) / 8));
};

template <int V, int P>
struct Words : Embedding<V, P, InitWords<V>> {};

/// Matrices uniform in ±sqrt(6 / (rows + columns)), W_ih and W_hh taken as one; the bias 0.
template <int S, int P>
struct Cell : Lstm<S, OneBias, Projection<P>, ForgetBias<1>> {
  static constexpr Parameters parameters(Shape in) {
    Parameters all = Lstm<S, OneBias, Projection<P>, ForgetBias<1>>::parameters(in);
    Init const gates = uniform(6.0 / (4.0 * S + in[1] + P));
    Init const inits[] = {gates, gates, Init::constant(0.0F), uniform(6.0 / (S + P))};
    for (int p = 0; p < all.count; ++p) {
      all.item[p].init = inits[p];
    }
    return all;
  }
};

template <int V, class... Options>
struct Guess : Vocabulary<V, PerSample, InitWords<V>, Options...> {
  static constexpr Parameters parameters(Shape in) {
    Parameters all = Vocabulary<V, PerSample, InitWords<V>, Options...>::parameters(in);
    all.item[1].init = uniform(3.0 / V);
    return all;
  }
};

// Options: of each kind the first one, or what stands for none.
template <class... Options>
struct DropoutAt {
  using type = Percent<10>;
};
template <class First, class... Others>
struct DropoutAt<First, Others...> : DropoutAt<Others...> {};
template <DropoutRate First, class... Others>
struct DropoutAt<First, Others...> {
  using type = First;
};
template <int V, class... Options>
struct GuessOf {
  using type = Guess<V, Sampled<8192>>;
};
template <int V>
  requires(V <= 8192)
struct GuessOf<V> {
  using type = Guess<V>;
};
template <int V, class First, class... Others>
struct GuessOf<V, First, Others...> : GuessOf<V, Others...> {};
template <int V, int Drawn, class... Others>
struct GuessOf<V, Sampled<Drawn>, Others...> {
  using type = Guess<V, Sampled<Drawn>>;
};

template <int S, int P, class Rate>
struct Block : Sequential<Cell<S, P>, Dropout<Rate>> {};

template <int V, int S, int P, int N, class... Options>
struct Body : Sequential<Words<V, P>, Dropout<typename DropoutAt<Options...>::type>,
                         Repeat<N, Block<S, P, typename DropoutAt<Options...>::type>>,
                         typename GuessOf<V, Options...>::type> {};

}  // namespace big_lstm

/// N LSTMs of S units with a projection to P numbers, that read 20 of V words at a time, sorted by
/// how often they occur. Options: Sampled<Words> (the default is Sampled<8192>, and all words where
/// there are no more), a dropout (the default is Percent<10>).
///
/// 2 V P + V + N (4 S (2 P + 1) + S P) parameters: 1,776,880,510 of BigLstm<793470, 8192, 1024, 2>,
/// BIGLSTM of the source, and 822,752,126 of <793470, 2048, 512, 1>, its default.
/// Top-level parts, as Split counts them: the words, a dropout, each LSTM with its dropout, the
/// criterion. The states begin at 0 in each batch.
/// The loss is PerSample, the mean over words times 20, as the source has it; the rest of its
/// recipe is the trainer's (docs/sequences.md#training-as-gnmt-and-biglstm-were): Adagrad of 0.2
/// without epsilon, from an accumulator of 1; gradients of the words' matrix, "0.*", times the
/// batch; those of the LSTMs, "2.*", clipped at 10, BIGLSTM's at 1; an average
/// of their weights, 0.999, for evaluation.
/// Source: Jozefowicz, Vinyals, Schuster, Shazeer, Wu, arXiv:1602.02410; f-lm, language_model.py
template <int V, int S, int P, int N, class... Options>
struct BigLstm : Network<Tokens<20, V>, big_lstm::Body<V, S, P, N, Options...>> {};

}  // namespace tandem::models
