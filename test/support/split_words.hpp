// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Networks whose tables of words devices share, and how: any number of words, smoothed targets,
/// weights of two layers.

#include <tandem/tandem.hpp>

#include <small_gpt.hpp>

namespace tandem::test {

inline constexpr int word_channels = 8;

/// 11 words: of eight devices five have two, one has one and two have none.
struct FreeWords
    : Network<Tokens<gpt_time, gpt_words>,
              Sequential<Embedding<gpt_words, word_channels>, Positions<>,
                         Residual<Sequential<LayerNorm<>, Linear<16>, Gelu, Linear<8>>>,
                         Vocabulary<gpt_words, Smoothing<Percent<20>>>>> {};

/// The criterion's table is the embedding's, and its logits are made again.
struct SharedWords : Embedding<gpt_words, word_channels> {};
struct TiedWords : Network<Tokens<gpt_time, gpt_words>,
                           Sequential<SharedWords, Dropout<Percent<20>>, LayerNorm<>,
                                      Vocabulary<gpt_words, Shares<SharedWords>,
                                                 Smoothing<Percent<10>>, Chunked<5>, PerSample>>> {
};

/// Of FreeWords.
template <int N, class... Options>
using SplitWords = TensorParallel<N, Microbatches<2>, SplitInputs<0>, SplitOutputs<3>, Options...>;
/// Of TiedWords.
using SplitTied = TensorParallel<2, Microbatches<2>, SplitOutputs<"3">, Checkpoint<Every<2>>>;

}  // namespace tandem::test
