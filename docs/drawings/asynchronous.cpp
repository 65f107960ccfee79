// SPDX-License-Identifier: Apache-2.0

/// @file
/// Pipelines that are never emptied between steps; here for a few steps and then emptied.

#include "pictures.hpp"

#include <tandem/strategy/types/asynchronous_pipeline.hpp>

namespace tandem::drawings {

namespace {

template <class Schedule, int Microbatches = 1>
Picture draw_steps(std::string name, std::string const& title, std::string const& sentence,
                   int steps) {
  using S = Pipeline<Schedule, Microbatches, Split<1>, Split<1>, Split<1>>;
  return draw_rows<ThreeLayers, S>(std::move(name), title, sentence,
                                   asynchronous_table(detail::asynchrony_of<S>(), steps));
}

}  // namespace

std::vector<Picture> asynchronous_pictures() {
  return {
      draw_steps<PipeDream>("pipedream", "Pipeline<PipeDream, 1, Split<a>, Split<b>, Split<c>>",
                            "Backward reads the weights that the forward pass has read, which "
                            "are kept till then; DelayedGradient is the same.",
                            7),
      draw_steps<PipeDreamVerticalSync>(
          "pipedream_vertical_sync", "Pipeline<PipeDreamVerticalSync, 1, ...>",
          "All stages read the version with which the microbatch began, so each keeps p of them.",
          7),
      draw_steps<PipeDream2BW, 3>("pipedream_2bw", "Pipeline<PipeDream2BW, 3, ...>",
                                  "An update every three microbatches, two versions, and every "
                                  "gradient one update late.",
                                  4),
      draw_steps<WeightPrediction>(
          "weight_prediction", "Pipeline<WeightPrediction, 1, ...>",
          "Forward reads a prediction, made from the version shown, of the weights that backward "
          "will read.",
          7),
      draw_steps<FeaturesReplay>("features_replay", "Pipeline<FeaturesReplay, 1, ...>",
                                 "Backward computes the forward pass again with the current "
                                 "weights; one version is kept.",
                                 6),
      draw_steps<PipelinedModel>("pmp", "Pipeline<PipelinedModel, 1, ...>",
                                 "As FeaturesReplay with gradients twice as late, so that no "
                                 "device waits for another's message.",
                                 7),
  };
}

}  // namespace tandem::drawings
