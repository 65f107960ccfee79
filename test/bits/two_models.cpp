// SPDX-License-Identifier: Apache-2.0
// Two models on the same devices, and pipelines that are never emptied.

#include "images.hpp"

namespace tandem::bits {
namespace {

void pairs(std::string const& folder) {
  using P = Fp32Host;
  pair<P, CrossModelParallel<AverageGradients, Split<4>, Split<5>>, SingleDevice<Microbatches<2>>>(
      folder, "cross_gradients", {.clip_norm = 0.5});
  pair<P, CrossModelParallel<AverageWeights<2>, Split<4>, Split<5>>>(folder, "cross_weights",
                                                                     {.optimizer = Adam{}});
  pair<P, CrossModelParallel<AverageWeightsAndState<2>, Split<3>, Split<3>, Split<3>>>(
      folder, "cross_state");
  pair<P, CrossModelParallel<Overlapped<AverageWeights<1>>, Split<4>, Split<5>>>(
      folder, "cross_overlapped");
  pair<P, Hybrid<DataParallel<2>, CrossPipeline<2, AverageGradients, Split<4>, Split<5>>>>(
      folder, "cross_pipeline");
  pair<P, Pipeline<PipeDream, 1, Split<3>, Split<3>, Split<3>>>(folder, "pipedream");
  pair<P, Pipeline<DelayedGradient, 1, Split<4>, Split<5>>>(folder, "delayed_gradient");
  pair<P, Pipeline<PipeDreamVerticalSync, 1, Split<4>, Split<5>>>(folder, "vertical_sync");
  pair<P, Pipeline<PipeDream2BW, 2, Split<4>, Split<5>>>(folder, "double_buffered",
                                                         {.optimizer = Adam{}});
  pair<P, Pipeline<WeightPrediction, 1, Split<4>, Split<5>>>(folder, "weight_prediction");
  pair<P, Pipeline<FeaturesReplay, 1, Split<4>, Split<5>>>(folder, "features_replay");
  pair<P, Pipeline<PipelinedModel, 1, Split<4>, Split<5>>>(folder, "pipelined_model");
}

}  // namespace
}  // namespace tandem::bits

int main(int argc, char** argv) { return tandem::bits::main_of(argc, argv, tandem::bits::pairs); }
