// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A GPT of two blocks with dropout, whose words are shared with its criterion, the same with
/// recurrent layers, and sequences of several lengths for them: whether strategies train it alike.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/watchdog.hpp>

namespace tandem::test {

inline constexpr int gpt_words = 11;
inline constexpr int gpt_time = 6;

/// Top-level parts: words, positions, two blocks, norm, criterion.
struct SmallGpt : models::Gpt<gpt_words, gpt_time, 8, 2, 2, Percent<20>> {};

/// What stages of an asynchronous pipeline may have: nothing is shared.
struct FreeGpt
    : Network<
          Tokens<gpt_time, gpt_words>,
          Sequential<Embedding<gpt_words, 8>, Positions<>,
                     Residual<Sequential<LayerNorm<>, Linear<24>, Attention<2, Causal>, Linear<8>>>,
                     Residual<Sequential<RmsNorm<>, Linear<12>, SwiGlu, Linear<8>>>,
                     Residual<Sequential<LayerNorm<>, Linear<16>, RotaryPositions<2, KeyHeads<1>>,
                                         Attention<2, Causal, KeyHeads<1>>, Linear<8>>>,
                     Vocabulary<gpt_words>>> {};

/// States that rows leave to rows, in both directions, with the same words and parts as SmallGpt.
struct RecurrentWords : Embedding<gpt_words, 8> {};
struct SmallLstm
    : Network<Tokens<gpt_time, gpt_words>,
              Sequential<RecurrentWords, Lstm<4, Bidirectional>,
                         Residual<Sequential<Dropout<Percent<20>>,
                                             Lstm<6, OneBias, Projection<8>, ForgetBias<1>>>>,
                         Gru<8>, LayerNorm<>, Vocabulary<gpt_words, Shares<RecurrentWords>>>> {};

inline TrainerOptions gpt_options() {
  return {.batch = 9,
          .optimizer = AdamW{.learning_rate = 0.01F, .epsilon = 1e-3F},
          .clip_norm = 0.5,
          .groups = {{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2}},
          .seed = 3,
          .threads_per_device = 1};
}

/// Step @p s on 9 - s sequences, of up to 6, 5 and 4 rows in turns; what stands behind the end of
/// one is @p beyond, @p padding rows more than there need be, and must not matter.
template <class TrainerType>
StepResult gpt_step(TrainerType& trainer, int s, std::int32_t beyond = 0, int padding = 0) {
  int const samples = 9 - s;
  int const most = gpt_time - s % 3;
  int const time = most + padding;
  std::vector<std::int32_t> x;
  std::vector<std::int32_t> y;
  std::vector<std::int32_t> lengths;
  for (int i = 0; i < samples; ++i) {
    lengths.push_back(1 + (i * 5 + s * 3) % most);
    for (int t = 0; t < time; ++t) {
      bool const there = t < lengths.back();
      x.push_back(there ? (i * 7 + t * 3 + s) % gpt_words : beyond);
      y.push_back(there && (i + t + s) % 4 > 0 ? (i + t * 5 + s * 2) % gpt_words : -1);
    }
  }
  return trainer.step(x, y, {.time = time, .lengths = lengths});
}

/// Three steps.
template <class S, class Backend, class Net = SmallGpt>
struct TrainedGpt {
  Trainer<Net, S, Backend> trainer{gpt_options()};
  std::vector<StepResult> results{};

  explicit TrainedGpt(std::int32_t beyond = 0) {
    Watchdog const watchdog{"three steps of a GPT"};
    for (int s = 0; s < 3; ++s) {
      results.push_back(gpt_step(trainer, s, beyond));
    }
  }
};

}  // namespace tandem::test
