// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Trains pairs of a network and a strategy: prints each loss to the last bit, and leaves a
/// checkpoint of each, which run.py hashes.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <tandem/any_strategy.hpp>
#include <tandem/tandem.hpp>

namespace tandem::bits {

/// What may differ from pair to pair besides types.
struct Options {
  Optimizer optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 0.01F};
  double clip_norm = 0.0;
  int loader_threads = 1;
  int threads = 1;  ///< of a device
  WeightAverage average{};
  int batch = 12;
  bool shuffle = true;
};

inline TrainerOptions trainer_options(Options const& o) {
  return {.batch = o.batch,
          .optimizer = o.optimizer,
          .schedule = {Cosine{.steps = 12}, 2},
          .clip_norm = o.clip_norm,
          .average = o.average,
          .seed = 7,
          .shuffle = o.shuffle,
          .threads_per_device = o.threads,
          .loader_threads = o.loader_threads};
}

/// A number of [0, n) for each @p i, the same everywhere.
inline std::int32_t number(std::uint64_t i, std::uint32_t n) {
  return static_cast<std::int32_t>(below(philox(1, RandomUse::user, i, 0).word[0], n));
}

inline TensorDataset<std::int32_t> images(Shape const& shape, int samples) {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (std::int64_t i = 0; i < shape.elements() * samples; ++i) {
    x.push_back(static_cast<float>(number(static_cast<std::uint64_t>(i), 256)) / 128.0F - 1.0F);
  }
  for (int i = 0; i < samples; ++i) {
    y.push_back(number(static_cast<std::uint64_t>(i), 5));
  }
  return {shape, x, y};
}

inline std::vector<std::int32_t> words(int count, std::uint32_t vocabulary) {
  std::vector<std::int32_t> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(number(static_cast<std::uint64_t>(i), vocabulary));
  }
  return all;
}

#if TANDEM_BITS_VALUES
/// The strategy as a value.
template <class Net, class S, class Backend>
struct TrainerOf : Trainer<Net, AnyStrategy, Backend> {
  explicit TrainerOf(TrainerOptions const& options)
      : Trainer<Net, AnyStrategy, Backend>{value_of<S>(), options} {}
};
#else
template <class Net, class S, class Backend>
using TrainerOf = Trainer<Net, S, Backend>;
#endif

/// Trains an epoch, saves, and has a new trainer go on from there for another one.
/// @tparam Resume  the strategy of the second trainer
template <class Net, class Backend, class S, class Resume = S, class Data>
void train(std::string const& folder, char const* name, Data const& data, Options const& options) {
  std::string const path = folder + "/" + name + ".safetensors";
  auto const epoch = [&](auto& trainer, std::int64_t index) {
    trainer.train(data, Epoch{index, 2},
                  [&](StepReport const& step) { std::printf("%s %a\n", name, step.loss); });
    std::printf("%s evaluated %a\n", name, trainer.evaluate(data).loss);
    trainer.save(path);
  };
  {
    TrainerOf<Net, S, Backend> trainer{trainer_options(options)};
    epoch(trainer, 0);
  }
  TrainerOf<Net, Resume, Backend> trainer{trainer_options(options)};
  trainer.load(path);
  epoch(trainer, 1);
}

/// main() of a program of pairs: `program FOLDER`.
template <class Pairs>
int main_of(int argc, char** argv, Pairs const& pairs) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  pairs(std::string{argv[1]});
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}

}  // namespace tandem::bits
