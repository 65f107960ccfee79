// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A small language model whose words have a dense gradient, or one of rows, and the bits of a few
/// of its steps.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <support/watchdog.hpp>

#include <compare.hpp>

namespace tandem::test {

inline constexpr int row_words = 90;
inline constexpr int row_time = 6;

/// @tparam Options  of the words: RowGradient, or none
template <class... Options>
struct RowNet : Network<Tokens<row_time, row_words>,
                        Sequential<Embedding<row_words, 20, Options...>, Linear<20>, GeluTanh,
                                   Linear<16>, Vocabulary<row_words>>> {};

/// Optimizers that leave alone what has the gradient 0, clipped and scaled in several ways.
template <class Backend>
std::vector<TrainerOptions> row_options() {
  TrainerOptions plain{.batch = 12,
                       .optimizer = Sgd{.learning_rate = 0.5F},
                       .clip_norm = 0.3,
                       .groups = {{.pattern = "0.weight", .gradient_scale = 8.0F}},
                       .threads_per_device = 1};
  TrainerOptions others = plain;  // BigLSTM's: the norm of all gradients but the words'
  others.optimizer = own_optimizer<Backend>(
      Adagrad{.learning_rate = 0.2F, .lr_decay = 0.1F, .initial_accumulator_value = 1.0F});
  others.clip_norm = 0.0;
  others.clip_value = 0.02;
  others.groups.push_back({.pattern = "1.*", .clip_norm = 0.1});
  others.loss_scaling = LossScaling{.initial = 256.0, .every = 2};
  return {plain, others};
}

/// A few steps: of all samples, of fewer rows of time and some samples shorter, of fewer samples,
/// and of one word alone.
template <class Net, class S, class Backend,
          template <int> class Transport = DefaultTransport<Backend>::template type>
struct TrainedRows {
  Trainer<Net, S, Backend, DefaultLoss<Net>, DefaultMetric<DefaultLoss<Net>>, Transport> trainer;
  std::vector<StepResult> results{};

  explicit TrainedRows(TrainerOptions const& options) : trainer{options} {
    Watchdog const watchdog{"steps of gradients of rows"};
    for (int s = 0; s < 4; ++s) {
      int const samples = s == 2 ? 5 : 12;
      int const time = s == 1 ? row_time - 2 : row_time;
      std::vector<std::int32_t> x;
      std::vector<std::int32_t> targets;
      std::vector<std::int32_t> lengths;
      for (int b = 0; b < samples; ++b) {
        lengths.push_back(s == 1 ? 1 + b % time : time);
        for (int t = 0; t < time; ++t) {
          int const i = b * 31 + t * t * 7 + s;
          x.push_back(s == 3 ? 5 : i * i % row_words);
          targets.push_back(t < lengths.back() ? i % row_words : -1);
        }
      }
      results.push_back(trainer.step(x, targets, {.time = time, .lengths = lengths}));
    }
  }
};

/// That both have the same losses, norms, weights and states, bit for bit.
template <class A, class B>
void check_same_rows(A const& a, B const& b) {
  for (std::size_t s = 0; s < a.results.size(); ++s) {
    INFO("step " << s);
    CHECK(a.results[s].loss == b.results[s].loss);
    CHECK(a.results[s].gradient_norm == b.results[s].gradient_norm);
  }
  CHECK(first_difference(a.trainer.parameters(), b.trainer.parameters()) == "");
}

}  // namespace tandem::test
