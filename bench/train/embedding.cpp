// SPDX-License-Identifier: Apache-2.0

/// @file
/// What RowGradient wins: steps of Embedding<200000, 256> on two replicas, 128 sequences of 20
/// words, with a dense gradient and with one of rows, in turn.
///
///   bench_embedding [--rounds 7] [--steps 5] [--threads 1]
///
/// Prints a line of JSON for each: medians of the rounds' means, step_s and cpu_s of all threads;
/// bytes that a replica gives to the reduction of the words' gradient, by its formula, which the
/// suite compares with recorded calls; bytes of gradients that a replica has allocated.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include <tandem/tandem.hpp>

#include "flags.hpp"
#include "rounds.hpp"

namespace td = tandem;

namespace {

constexpr int words = 200'000;
constexpr int channels = 256;
constexpr int longest = 20;
constexpr int batch = 128;

template <class... Options>
struct Net : td::Network<td::Tokens<longest, words>,
                         td::Sequential<td::Embedding<words, channels, Options...>,
                                        td::MeanOverTime, td::Linear<2>>> {};

template <class... Options>
class Steps {
 public:
  explicit Steps(int threads)
      : trainer_{{.batch = batch,
                  .optimizer = td::Sgd{.learning_rate = 0.1F},
                  .threads_per_device = threads}} {
    for (std::uint64_t i = 0; i < std::uint64_t{batch} * longest; ++i) {
      auto const word = td::philox(1, td::RandomUse::user, i, 0).word[0];
      x_.push_back(static_cast<std::int32_t>(word % words));
      if (i % longest == 0) {
        targets_.push_back(static_cast<std::int32_t>(word % 2));
      }
    }
  }

  void run(int steps) {
    td::bench::Stopwatch const watch;
    for (int s = 0; s < steps; ++s) {
      static_cast<void>(trainer_.step(x_, targets_));
    }
    seconds_.push_back(watch.wall_s() / steps);
    cpu_seconds_.push_back(watch.cpu_s() / steps);
  }

  void print(char const* gradient, std::int64_t sent) {
    std::printf(
        "{\"gradient\": \"%s\", \"step_s\": %.6f, \"cpu_s\": %.6f, \"sent_bytes\": %lld, "
        "\"gradient_bytes\": "
        "%lld}\n",
        gradient, median(seconds_), median(cpu_seconds_), static_cast<long long>(sent),
        static_cast<long long>(trainer_.memory().gradients));
  }

 private:
  static double median(std::vector<double> list) {
    std::sort(list.begin(), list.end());
    return list[list.size() / 2];
  }

  td::Trainer<Net<Options...>, td::DataParallel<2>, td::Host> trainer_;
  std::vector<std::int32_t> x_;
  std::vector<std::int32_t> targets_;
  std::vector<double> seconds_;
  std::vector<double> cpu_seconds_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    td::bench::Flags const flags{argc, argv, {"rounds", "steps", "threads"}};
    int const steps = flags.number("steps", 5);
    int const threads = flags.number("threads", 1);
    Steps<> dense{threads};
    Steps<td::RowGradient> rows{threads};
    for (int round = 0; round < flags.number("rounds", 7); ++round) {
      dense.run(steps);
      rows.run(steps);
    }
    dense.print("dense", 2 * std::int64_t{words} * channels * 4 / 2);
    rows.print("rows", td::gradient_rows_bytes(batch / 2 * longest, channels, 4));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_embedding: %s\n", error.what());
    return 1;
  }
  return 0;
}
