// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The contenders of bench_strategies: one strategy, or two workers alone.

#include <thread>

#include <tandem/tandem.hpp>

#include "../rounds.hpp"
#include "contender.hpp"
#include "networks.hpp"

namespace tandem::bench {

/// Images of noise; always the same ones, whatever the number of samples.
class Noise {
 public:
  using Target = std::int32_t;

  explicit Noise(std::int64_t samples) : samples_{samples}, image_(32 * pixels) {
    for (std::size_t i = 0; i < image_.size(); ++i) {
      image_[i] = uniform(philox(1, RandomUse::user, i, 0).word[0]) - 0.5F;
    }
  }
  [[nodiscard]] std::int64_t size() const { return samples_; }
  [[nodiscard]] static Shape shape() { return image_shape(3, 32, 32); }
  [[nodiscard]] static int targets() { return 1; }
  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    auto const image = image_.begin() + static_cast<std::ptrdiff_t>(index % 32 * pixels);
    std::copy(image, image + pixels, x.begin());
    y[0] = static_cast<Target>(index % 10);
  }

 private:
  static constexpr std::ptrdiff_t pixels = 3 * 32 * 32;

  std::int64_t samples_;
  std::vector<float> image_;
};

template <class Net, class Strategy>
class Training final : public Contender {
 public:
  explicit Training(int batch)
      : batch_{batch},
        trainer_{{.batch = batch,
                  .optimizer = Sgd{.learning_rate = 0.001F, .momentum = 0.9F},
                  .threads_per_device = 1}} {}

  double train(int steps) override {
    Noise const data{std::int64_t{steps} * batch_};
    Stopwatch const watch;
    trainer_.train(data, epoch_++);
    return watch.wall_s();
  }
  [[nodiscard]] std::vector<std::int64_t> memory() const override {
    std::vector<std::int64_t> bytes;
    for (int rank = 0; rank < Strategy::ranks; ++rank) {
      bytes.push_back(trainer_.memory(rank).total());
    }
    return bytes;
  }

 private:
  int batch_;
  std::int64_t epoch_ = 0;
  Trainer<Net, Strategy, Host> trainer_;
};

/// The most that two devices can do: neither ever waits for the other.
template <class Net>
class TwoAlone final : public Contender {
 public:
  explicit TwoAlone(int batch) : first_{batch - batch / 2}, second_{batch / 2} {}

  double train(int steps) override {
    Stopwatch const watch;
    std::thread other{[&] { second_.train(steps); }};
    first_.train(steps);
    other.join();
    return watch.wall_s();
  }
  [[nodiscard]] std::vector<std::int64_t> memory() const override {
    return {first_.memory()[0], second_.memory()[0]};
  }

 private:
  Training<Net, SingleDevice<>> first_;
  Training<Net, SingleDevice<>> second_;
};

template <class C>
void add(Contenders& all, char const* name, int batch) {
  all.push_back(std::make_unique<C>(batch));
  all.back()->name = name;
}

/// How many microbatches the pipelines have that can have several.
inline constexpr int microbatches = 4;

template <class Net, class Schedule, int Count = microbatches>
using Piped = Training<Net, Pipeline<Schedule, Count, typename Net::First, typename Net::Second>>;

template <class Net, class Rule>
using Crossed = Training<Net, CrossModelParallel<Rule, typename Net::First, typename Net::Second>>;

template <class Net>
void add_synchronous(Contenders& all, int batch) {
  using Alone = ModelParallel<typename Net::First, typename Net::Second>;
  add<Training<Net, Alone>>(all, "ModelParallel", batch);
  add<TwoAlone<Net>>(all, "two workers alone", batch);
  add<Crossed<Net, AverageGradients>>(all, "Cross, AverageGradients", batch);
  add<Crossed<Net, AverageWeights<>>>(all, "Cross, AverageWeights<>", batch);
  add<Crossed<Net, Overlapped<AverageWeights<>>>>(all, "Cross, Overlapped<AverageWeights<>>",
                                                  batch);
  add<Piped<Net, GPipe>>(all, "GPipe", batch);
  add<Piped<Net, OneFOneB>>(all, "OneFOneB", batch);
}

template <class Net>
void add_asynchronous(Contenders& all, int batch) {
  add<Piped<Net, PipelinedModel, 1>>(all, "PipelinedModel (PMP)", batch);
  add<Piped<Net, PipeDream, 1>>(all, "PipeDream", batch);
  add<Piped<Net, PipeDream2BW>>(all, "PipeDream2BW", batch);
}

}  // namespace tandem::bench
