// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The asynchronous pipelines. DelayedGradient is left out: it gives the numbers of PipeDream.

#include "training.hpp"

namespace tandem::bench {

template <class Net, class Schedule, int Microbatches = 1>
using Asynchronous = Pipeline<Schedule, Microbatches, typename Net::First, typename Net::Second>;

template <class Net>
std::vector<Method> asynchronous_methods() {
  return {method<Net, Asynchronous<Net, PipeDream>>("pipedream", "PipeDream"),
          method<Net, Asynchronous<Net, PipeDreamVerticalSync>>("pipedream_vertical_sync",
                                                                "PipeDreamVerticalSync"),
          method<Net, Asynchronous<Net, PipeDream2BW, 2>>("pipedream_2bw", "PipeDream2BW"),
          method<Net, Asynchronous<Net, WeightPrediction>>("weight_prediction", "WeightPrediction"),
          method<Net, Asynchronous<Net, FeaturesReplay>>("features_replay", "FeaturesReplay"),
          method<Net, Asynchronous<Net, PipelinedModel>>("pmp", "PipelinedModel (PMP)")};
}

}  // namespace tandem::bench
