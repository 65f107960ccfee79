// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// predict: profiles a network, trains it under each strategy in the same rounds, and compares.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tandem/measure/profile/profile.hpp>
#include <tandem/plan/search/profiled_step.hpp>
#include <tandem/tandem.hpp>

#include "../../train/rounds.hpp"
#include "predictions.hpp"

namespace tandem::bench {

/// A strategy at work, and what the planner calls it.
class Predicted {
 public:
  Predicted(std::string type, StrategyValue strategy, int count)
      : name{std::move(type)}, worker{std::move(strategy)}, workers{count} {}
  Predicted(Predicted const&) = delete;
  Predicted& operator=(Predicted const&) = delete;
  virtual ~Predicted() = default;

  /// Trains two steps; seconds of the second one, which finds its memory as the first has left it.
  double step() {
    train();
    Stopwatch const watch;
    train();
    return watch.wall_s();
  }

  std::string name;
  StrategyValue worker;
  int workers;
  std::vector<double> seconds;

 private:
  virtual void train() = 0;
};

template <class Net, class Strategy>
class Steps final : public Predicted {
 public:
  Steps(std::string type, StrategyValue strategy, int count, int batch)
      : Predicted{std::move(type), std::move(strategy), count},
        trainer_{{.batch = batch,
                  .optimizer = Sgd{.learning_rate = 0.001F, .momentum = 0.9F},
                  .threads_per_device = 1}},
        x_(static_cast<std::size_t>(batch * trainer_.input.elements())),
        y_(static_cast<std::size_t>(batch)) {
    for (std::size_t i = 0; i < x_.size(); ++i) {
      x_[i] = uniform(philox(1, RandomUse::user, i, 0).word[0]) - 0.5F;
    }
    for (std::size_t i = 0; i < y_.size(); ++i) {
      y_[i] = static_cast<std::int32_t>(i % 10);
    }
  }

  void train() override { trainer_.step(x_, y_); }

  Trainer<Net, Strategy, Host> trainer_;
  std::vector<float> x_;
  std::vector<std::int32_t> y_;
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::size_t const half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// @pre settings.batch is a multiple of 8
template <class Net>
void predict(std::vector<Prediction>& rows, std::string const& network,
             PredictionSettings const& settings) {
  constexpr TopCounts<2> halves = balanced_tops<2>(graph<Net>);
  using First = Split<halves.of[0]>;
  using Second = Split<halves.of[1]>;
  std::string const cut =
      "Split<" + std::to_string(halves.of[0]) + ">, Split<" + std::to_string(halves.of[1]) + ">>";
  int const batch = settings.batch;

  std::vector<std::unique_ptr<Predicted>> all;
  auto const add = [&]<class Strategy>(Strategy const*, std::string const& name,
                                       StrategyValue const& worker, int workers) {
    all.push_back(std::make_unique<Steps<Net, Strategy>>(name, worker, workers, batch));
  };
  add(static_cast<DataParallel<2> const*>(nullptr), "DataParallel<2>", {}, 2);
  add(static_cast<ModelParallel<First, Second> const*>(nullptr), "ModelParallel<" + cut,
      detail::chain_worker("sequential", 2), 1);
  add(static_cast<Pipeline<OneFOneB, 4, First, Second> const*>(nullptr),
      "Pipeline<OneFOneB, 4, " + cut, detail::chain_worker("one_f_one_b", 2, 4), 1);
  add(static_cast<CrossModelParallel<AverageGradients, First, Second> const*>(nullptr),
      "CrossModelParallel<AverageGradients, " + cut, detail::chain_worker("cross_model", 2, 2), 1);

  Profiler<Net> profiler{{.samples = {batch / 4, batch / 2, batch}}};
  for (auto const& one : all) {
    one->step();  // warms up
  }
  for (int round = 0; round < settings.rounds; ++round) {
    if (round % 2 == 0) {
      profiler.round();
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      Predicted& one = *all[round % 2 == 0 ? i : all.size() - 1 - i];
      one.seconds.push_back(one.step());
    }
    if (round % 2 == 1) {
      profiler.round();
    }
  }

  NetworkProfile const profile = profiler.profile();
  if (!settings.folder.empty()) {
    write_profile(profile, settings.folder + "/" + network + ".json");
  }
  for (auto const& one : all) {
    std::vector<int> const sizes = one->worker.replica_devices() == 1
                                       ? std::vector<int>{halves.of[0] + halves.of[1]}
                                       : std::vector<int>{halves.of[0], halves.of[1]};
    ProfiledStep const step = profiled_step(profile, one->worker, sizes, one->workers, batch);
    rows.push_back({.network = network,
                    .strategy = one->name,
                    .predicted = step.seconds(),
                    .measured = median(one->seconds)});
  }
}

}  // namespace tandem::bench
