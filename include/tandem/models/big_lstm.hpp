// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BigLstm: the recurrent language model of the One Billion Word Benchmark, whose softmax is over a
/// sample of the words.

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <tandem/graph/layer.hpp>
#include <tandem/graph/network.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/init_options.hpp>
#include <tandem/layers/options.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/layers/row_gradient.hpp>
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

// Option where it is among Options, as a list; else none.
template <class... Options>
struct Only {};
template <class Option, class... Options>
using IfNamed = std::conditional_t<(std::same_as<Option, Options> || ...), Only<Option>, Only<>>;

template <int V, int P, class... Options>
struct Words : Embedding<V, P, InitWords<V>, Options...> {};

/// Matrices uniform in ±sqrt(6 / (rows + columns)), W_ih and W_hh taken as one; the bias 0.
template <int S, int P, class... Options>
struct Cell : Lstm<S, OneBias, Projection<P>, ForgetBias<1>, Options...> {
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
// Of a sample where there are more words than Drawn, its gradients by rows if asked for.
template <int V, int Drawn, class ByRows>
struct GuessOf {
  using type = Guess<V>;
};
template <int V, int Drawn, class... ByRows>
  requires(Drawn > 0)
struct GuessOf<V, Drawn, Only<ByRows...>> {
  using type = Guess<V, Sampled<Drawn>, ByRows...>;
};
template <int V, class... Options>
constexpr int drawn() {
  int const asked = tandem::detail::gather_vocabulary_options<Options...>().sampled;
  return asked > 0 ? asked : V > 8192 ? 8192 : 0;
}

template <class Cell, class Rate>
struct Block : Sequential<Cell, Dropout<Rate>> {};

template <int V, int S, int P, int N, class Rate, class Guess, class ByRows, class States>
struct BodyOf;
template <int V, int S, int P, int N, class Rate, class Guess, class... ByRows, class... States>
struct BodyOf<V, S, P, N, Rate, Guess, Only<ByRows...>, Only<States...>>
    : Sequential<Words<V, P, ByRows...>, Dropout<Rate>,
                 Repeat<N, Block<Cell<S, P, States...>, Rate>>, Guess> {};

template <int V, int S, int P, int N, class... Options>
struct Body
    : BodyOf<V, S, P, N, typename DropoutAt<Options...>::type,
             typename GuessOf<V, drawn<V, Options...>(), IfNamed<RowGradient, Options...>>::type,
             IfNamed<RowGradient, Options...>, IfNamed<Stateful, Options...>> {};

}  // namespace big_lstm

/// N LSTMs of S units with a projection to P numbers, that read 20 of V words at a time, sorted by
/// how often they occur.
///
///   struct Net : models::BigLstm<793'470, 8192, 1024, 2, Stateful, RowGradient> {};  // BIGLSTM
///
/// Options: Sampled<Words> (the default is Sampled<8192>, and all words where there are no more), a
/// dropout (the default is Percent<10>); Stateful, by which states live on from batch to batch as
/// the source has it, else they begin at 0 in each; RowGradient, by which the gradients of both
/// matrices are of the rows that a step touches, where the softmax is of a sample.
///
/// 2 V P + V + N (4 S (2 P + 1) + S P) parameters: 1,776,880,510 of BigLstm<793470, 8192, 1024, 2>,
/// BIGLSTM of the source, and 822,752,126 of <793470, 2048, 512, 1>, its default.
/// Top-level parts, as Split counts them: the words, a dropout, each LSTM with its dropout, the
/// criterion.
/// The loss is PerSample, the mean over words times 20, as the source has it; the rest of its
/// recipe is the trainer's (docs/recurrent.md#training-as-gnmt-and-biglstm-were): Adagrad of 0.2
/// without epsilon, from an accumulator of 1; gradients of the words' matrix, "0.*", times the
/// batch; those of the LSTMs, "2.*", clipped at 10, BIGLSTM's at 1; an average
/// of their weights, 0.999, for evaluation.
/// Source: Jozefowicz, Vinyals, Schuster, Shazeer, Wu, arXiv:1602.02410; f-lm, language_model.py
template <int V, int S, int P, int N, class... Options>
struct BigLstm : Network<Tokens<20, V>, big_lstm::Body<V, S, P, N, Options...>> {};

}  // namespace tandem::models
