// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Training steps of a network on tokens on a GPU, timed, for gpt.cpp and lstm_model.cpp.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include <tandem/cuda.cuh>

namespace token_steps {

namespace td = tandem;
using Clock = std::chrono::steady_clock;

inline std::vector<std::int32_t> text(int samples, int rows, int words, std::uint64_t seed) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(samples) * rows);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    auto const word = td::philox(seed, td::RandomUse::user, i, 0).word[0];
    tokens[i] = static_cast<std::int32_t>(word % words);
  }
  return tokens;
}

/// Steps queued behind each other as Trainer::train() does, on the rank's own thread.
template <class Trainer>
double seconds_of_step(Trainer& trainer, std::vector<std::int32_t> const& x,
                       std::vector<std::int32_t> const& y, int batch, int rows, int steps) {
  auto const begin = Clock::now();
  trainer.workers().run([&](typename Trainer::RankType& rank) {
    constexpr int most = Trainer::Workers::steps_in_flight;
    for (int step = 0; step < steps; ++step) {
      if (step >= most) {
        rank.collect();
      }
      rank.queue_training({.step = step, .learning_rate = 0.0001},
                          {.x = x.data(), .targets = y.data(), .size = batch, .time = rows});
    }
    for (int step = 0; step < std::min(steps, most); ++step) {
      rank.collect();
    }
  });
  return std::chrono::duration<double>(Clock::now() - begin).count() / steps;
}

/// Prints, as JSON, the seconds of a step over @p steps steps that are queued behind each other,
/// seven rounds of which the first is left out: the median, the least and the most.
template <class Trainer>
void run(int batch, int rows, int words, int steps) {
  auto const x = text(batch, rows, words, 1);
  auto const y = text(batch, rows, words, 2);
  Trainer trainer{{.batch = batch, .optimizer = td::AdamW{.learning_rate = 0.0001F}}};
  double const loss = trainer.step(x, y).loss;
  std::vector<double> times;
  for (int round = 0; round < 7; ++round) {
    double const time = seconds_of_step(trainer, x, y, batch, rows, steps);
    if (round > 0) {
      times.push_back(time);
    }
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "{\"parameters\": %lld, \"loss\": %.6f, \"planned_bytes\": %lld, \"step_s\": %.9f, "
      "\"least_s\": %.9f, \"most_s\": %.9f}\n",
      static_cast<long long>(Trainer::graph.parameter_elements()), loss,
      static_cast<long long>(trainer.memory().total()), times[times.size() / 2], times.front(),
      times.back());
}

/// BATCH STEPS of a command line. @return the exit status
template <class Trainer>
int main_of(int argc, char** argv, int rows, int words) {
  int const batch = argc == 3 ? std::atoi(argv[1]) : 0;
  int const steps = argc == 3 ? std::atoi(argv[2]) : 0;
  if (batch < 1 || steps < 1) {
    std::fprintf(stderr, "usage: %s BATCH STEPS\n", argv[0]);
    return 2;
  }
  try {
    run<Trainer>(batch, rows, words, steps);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace token_steps
