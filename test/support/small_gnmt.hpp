// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A Gnmt of three layers with dropout, and sentences of several lengths for it.

#include <cstdint>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/watchdog.hpp>

namespace tandem::test {

inline constexpr int gnmt_words = 11;
inline constexpr int gnmt_time = 6;

/// Top-level parts: the encoder's words and three layers; the decoder's words, first layer,
/// attention, two layers, criterion.
struct SmallGnmt : models::Gnmt<gnmt_words, 4, 3, gnmt_time, Percent<20>> {};
/// The same with nothing shared, as asynchronous pipelines want it.
struct FreeGnmt : models::Gnmt<gnmt_words, 4, 3, gnmt_time, models::OwnWords> {};

inline TrainerOptions gnmt_options() {
  return {.batch = 9,
          .optimizer = Adam{.learning_rate = 0.01F, .epsilon = 1e-3F},
          .clip_norm = 0.5,
          .seed = 3,
          .threads_per_device = 1};
}

/// Step @p s on 9 - s pairs of sentences, of up to 6, 5 and 4 rows in turns; what stands behind the
/// end of one is @p beyond, and must not matter.
template <class TrainerType>
StepResult gnmt_step(TrainerType& trainer, int s, std::int32_t beyond = 0) {
  int const samples = 9 - s;
  int const time = gnmt_time - s % 3;
  int const second_time = gnmt_time - (s + 1) % 3;
  std::vector<std::int32_t> x, second, y, lengths, second_lengths;
  for (int i = 0; i < samples; ++i) {
    lengths.push_back(1 + (i * 5 + s * 3) % time);
    second_lengths.push_back(1 + (i * 2 + s) % second_time);
    for (int t = 0; t < time; ++t) {
      x.push_back(t < lengths.back() ? (i * 7 + t * 3 + s) % gnmt_words : beyond);
    }
    for (int t = 0; t < second_time; ++t) {
      bool const there = t < second_lengths.back();
      second.push_back(there ? (i * 3 + t * 5 + s) % gnmt_words : beyond);
      y.push_back(there ? (i * 3 + t * 5 + 5 + s) % gnmt_words : -1);
    }
  }
  return trainer.step(x, y,
                      {.time = time,
                       .lengths = lengths,
                       .second = second,
                       .second_time = second_time,
                       .second_lengths = second_lengths});
}

/// Three steps.
template <class S, class Backend, class Net = SmallGnmt>
struct TrainedGnmt {
  Trainer<Net, S, Backend> trainer{gnmt_options()};
  std::vector<StepResult> results{};

  explicit TrainedGnmt(std::int32_t beyond = 0) {
    Watchdog const watchdog{"three steps of a Gnmt"};
    for (int s = 0; s < 3; ++s) {
      results.push_back(gnmt_step(trainer, s, beyond));
    }
  }
};

}  // namespace tandem::test
