// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// serve_rounds: what run.py says to a competitor, and what it answers.

#include <chrono>
#include <cstdio>
#include <ctime>

namespace tandem::bench {

/// Wall time, and CPU time of all the process's threads, since it was made.
class Stopwatch {
 public:
  [[nodiscard]] double wall_s() const {
    return std::chrono::duration<double>(Clock::now() - wall_).count();
  }
  [[nodiscard]] double cpu_s() const {
    return static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point wall_ = Clock::now();
  std::clock_t cpu_ = std::clock();
};

/// For each line "round N" on the input, calls step() N times and prints a line of JSON: the means
/// step_s and cpu_s. Between rounds it sleeps, so that others can be measured.
template <class Step>
void serve_rounds(Step const& step) {
  std::fflush(stdout);
  for (int steps = 0; std::scanf(" round %d", &steps) == 1 && steps > 0;) {
    Stopwatch const watch;
    for (int i = 0; i < steps; ++i) {
      step();
    }
    double const wall = watch.wall_s();
    std::printf("{\"step_s\": %.9f, \"cpu_s\": %.9f}\n", wall / steps, watch.cpu_s() / steps);
    std::fflush(stdout);
  }
}

}  // namespace tandem::bench
