// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How every method of bench_convergence trains: the quickstart's optimizer, one thread a device.

#include <tandem/tandem.hpp>

#include "../rounds.hpp"
#include "method.hpp"
#include "networks.hpp"

namespace tandem::bench {

template <class Net, class Strategy>
Curve train_curve(ConvergenceSettings const& settings, FashionMnist const& data, int seed) {
  auto const training = first(data.train(), settings.samples);
  auto const test = first(data.test(), settings.test_samples);
  Curve curve;
  double seconds = 0.0;
  try {
    Trainer<Net, Strategy, Host> trainer{
        {.batch = settings.batch,
         .optimizer =
             Sgd{.learning_rate = settings.learning_rate, .momentum = 0.9F, .weight_decay = 1e-4F},
         .schedule = Cosine{.steps = settings.epochs * (training.size() + settings.batch - 1) /
                                     settings.batch},
         .seed = static_cast<std::uint64_t>(seed),
         .threads_per_device = 1}};
    for (auto const epoch : epochs(settings.epochs)) {
      Stopwatch const watch;
      double const loss = trainer.train(training, epoch).loss;
      seconds += watch.wall_s();  // with the end of the pipeline's last steps
      curve.epochs.push_back({trainer.evaluate(test).accuracy, loss, seconds});
    }
  } catch (NonFiniteLoss const& error) {
    curve.fault = error.what();
  }
  return curve;
}

template <class Net, class Strategy>
Method method(char const* key, char const* name, bool must_reach = false) {
  return {key, name, &train_curve<Net, Strategy>, must_reach};
}

}  // namespace tandem::bench
