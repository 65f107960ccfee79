// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What bench_gnmt does, whatever the precision: a unit each instantiates it for its own.

#include <cstdint>
#include <cstdio>
#include <vector>

#include <tandem/tandem.hpp>

#include "../profiled.hpp"
#include "../rounds.hpp"
#include "settings.hpp"

namespace tandem::bench::gnmt {

/// peers/pytorch_gnmt.py has the same.
struct Net : models::Gnmt<vocabulary, hidden, layers, longest, Percent<20>, models::OwnWords> {};

/// Tokens of both languages, without padding.
inline std::int64_t words_of(std::vector<PairBatch> const& batches) {
  std::int64_t words = 0;
  for (PairBatch const& batch : batches) {
    for (std::size_t i = 0; i < batch.lengths.size(); ++i) {
      words += batch.lengths[i] + batch.second_lengths[i];
    }
  }
  return words;
}

/// Of the products with weights, without padding: 2 a weight and token, three times.
inline double flops_of(std::vector<PairBatch> const& batches) {
  double flops = 0;
  double const square = static_cast<double>(hidden) * hidden;
  double const source = (2 * 8 + 12 + (layers - 2) * 8 + 1) * square;
  double const target = (8 + (layers - 1) * 12 + 1) * square + double{vocabulary} * hidden;
  for (PairBatch const& batch : batches) {
    for (std::size_t i = 0; i < batch.lengths.size(); ++i) {
      flops += 6 * (batch.lengths[i] * source + batch.second_lengths[i] * target);
    }
  }
  return flops;
}

template <class Backend>
class Training {
 public:
  Training(Settings const& settings, std::vector<PairBatch> const& batches)
      : batches_{batches},
        trainer{{.batch = static_cast<int>(batches[0].lengths.size()),
                 .optimizer = Adam{.learning_rate = 1e-3F},
                 .clip_norm = 5.0,
                 .threads_per_device = settings.threads}} {}

  /// The loss of the last of all batches.
  double pass() {
    double loss = 0;
    for (PairBatch const& batch : batches_) {
      loss = trainer
                 .step(batch.x, batch.targets,
                       {.time = batch.time,
                        .lengths = batch.lengths,
                        .second = batch.second,
                        .second_time = batch.second_time,
                        .second_lengths = batch.second_lengths})
                 .loss;
    }
    return loss;
  }

 private:
  std::vector<PairBatch> const& batches_;

 public:
  Trainer<Net, SingleDevice<>, Backend> trainer;
};

template <class Backend>
void serve(Settings const& settings) {
  auto const batches = read_batches(settings.data);
  Training<Backend> training{settings, batches};
  double const loss = training.pass();
  std::printf(
      "{\"kernels\": \"%s\", \"precision\": \"%s\", \"threads\": %d, \"parameters\": %lld, "
      "\"loss\": %.6f, \"planned_bytes\": %lld, \"units\": %lld, \"flops\": %.6e}\n",
      settings.kernels.c_str(), settings.precision.c_str(), settings.threads,
      static_cast<long long>(graph<Net>.parameter_elements()), loss,
      static_cast<long long>(training.trainer.memory().total()),
      static_cast<long long>(words_of(batches)), flops_of(batches));
  serve_rounds([&] { training.pass(); });
}

template <class Backend>
void print_profile(Settings const& settings) {
  auto const batches = read_batches(settings.data);
  Training<Profiled<Backend>> training{settings, batches};
  training.pass();
  Profile& profile = Profile::instance();
  profile.clear(settings.threads == 1);
  Stopwatch const watch;
  for (int step = 0; step < settings.profile; ++step) {
    training.pass();
  }
  profile.print(settings.profile, profile.seconds(watch) / settings.profile);
}

template <class Kernels, class Precision>
void run(Settings const& settings) {
  expects(settings.kernels == Kernels::name,
          "compiled with oneDNN it has --kernels onednn only, without --kernels portable");
  using Backend = BasicHost<Kernels, Precision>;
  settings.profile > 0 ? print_profile<Backend>(settings) : serve<Backend>(settings);
}

}  // namespace tandem::bench::gnmt
