// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What bench_prediction compares, for each network a unit of this folder.

#include <string>
#include <vector>

namespace tandem::bench {

struct PredictionSettings {
  int batch;
  int rounds;
  std::string folder;  ///< where profiles go; empty: nowhere
};

/// Seconds of a step.
struct Prediction {
  std::string network;
  std::string strategy;
  double predicted;
  double measured;
};

/// Appends a row for each strategy.
void predict_googlenet(std::vector<Prediction>& rows, PredictionSettings const& settings);
void predict_resnet18(std::vector<Prediction>& rows, PredictionSettings const& settings);

}  // namespace tandem::bench
