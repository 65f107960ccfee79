// SPDX-License-Identifier: Apache-2.0

/// @file
/// Two models in opposite directions.

#include "pictures.hpp"

#include <tandem/strategy/types/cross_model_parallel.hpp>

namespace tandem::drawings {

namespace {

using One = Split<1>;

}  // namespace

std::vector<Picture> cross_model_pictures() {
  return {
      draw<TwoLayers, CrossModelParallel<AverageWeights<>, One, One>>(
          "cross_model_2", "CrossModelParallel<AverageWeights<>, Split<a>, Split<b>>",
          "Two models, x and y, reversely placed; both devices always work."),
      draw<FourLayers, CrossModelParallel<AverageGradients, One, One, One, One>>(
          "cross_model_4", "CrossModelParallel<AverageGradients, Split<a>, Split<b>, ...>",
          "On four devices the waves cross between the second and the third and never meet."),
      draw<ThreeLayers, CrossModelParallel<AverageWeightsAndState<>, One, One, One>>(
          "cross_model_3", "CrossModelParallel<AverageWeightsAndState<>, Split<a>, ...>",
          "On an odd number both waves need the middle device at once: first come, first served."),
      draw<TwoLayers, CrossModelParallel<Overlapped<AverageWeights<>>, One, One>>(
          "cross_model_overlapped", "CrossModelParallel<Overlapped<AverageWeights<>>, ...>",
          "Weights are exchanged while the step computes, and averaged before its update."),
      draw<FourLayers, CrossPipeline<8, AverageWeights<>, One, One, One, One>>(
          "cross_pipeline", "CrossPipeline<8, AverageWeights<>, Split<a>, Split<b>, ...>",
          "Four microbatches for each of the two models, in the order of Chimera."),
  };
}

}  // namespace tandem::drawings
