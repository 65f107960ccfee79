// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Statistical efficiency of language models: tokens to a loss by tokens a step, as the epochs by
/// batch that the planner reads; and the critical batch from the noise of gradients.
///
/// Source: McCandlish et al., arXiv:1812.06162, appendix A.1; Kaplan et al., arXiv:2001.08361,
/// section 5.1.

#include <cmath>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/plan/epochs/epoch_points.hpp>

namespace tandem {

/// Points of tokens to a loss, by tokens a step, as points of epochs by sequences a step.
/// @param context  tokens of a sequence
/// @param samples  sequences of an epoch
/// @throws ContractError  check_epoch_points() refuses the points, or a number is not positive
TANDEM_ONCE [[nodiscard]] std::vector<EpochPoint> epochs_of_tokens(std::vector<EpochPoint> points,
                                                                   double context, double samples);

/// Of the mean gradient of so many samples, or tokens: the square of its norm, a mean over steps.
struct GradientNorm {
  double batch = 0;
  double squared = 0;
};

/// The noise scale tr(covariance of a sample's gradient) / |gradient|², which is about the critical
/// batch, in what the batches count; both estimates are without bias.
/// @throws ContractError  batches or squares are not positive, the first batch is not the smaller;
///                        or the squares do not lie as noise makes them: give means over more steps
TANDEM_ONCE [[nodiscard]] double gradient_noise_scale(GradientNorm const& small,
                                                      GradientNorm const& large);

/// The critical batch, in tokens, of a language model at a loss in nats: 2.1 · 10^8 / loss^(1 /
/// 0.21), as fitted to transformers on WebText2 with some 50,000 words, whatever their size.
/// @throws ContractError  @p loss is not positive
TANDEM_ONCE [[nodiscard]] double critical_batch_of_loss(double loss);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::vector<EpochPoint> epochs_of_tokens(std::vector<EpochPoint> points, double context,
                                                     double samples) {
  check_epoch_points(points, 1);
  expects(
      context > 0 && samples > 0 && is_finite(context) && is_finite(samples),
      "epochs_of_tokens(points, context, samples): give a context and samples that are positive");
  for (EpochPoint& point : points) {
    point.batch /= context;
    point.epochs /= context * samples;
  }
  return points;
}

TANDEM_ONCE double gradient_noise_scale(GradientNorm const& small, GradientNorm const& large) {
  expects(small.batch > 0 && large.batch > small.batch && small.squared > 0 && large.squared > 0 &&
              is_finite(large.batch) && is_finite(small.squared) && is_finite(large.squared),
          "gradient_noise_scale(small, large): give two batches, the smaller first, and squares "
          "that are positive");
  double const noise = (small.squared - large.squared) / (1 / small.batch - 1 / large.batch);
  double const signal =
      (large.batch * large.squared - small.batch * small.squared) / (large.batch - small.batch);
  expects(noise > 0 && signal > 0,
          "gradient_noise_scale(small, large): the gradient of the larger batch must be the "
          "smaller, and not by more than noise alone would have it; give means over more steps");
  return noise / signal;
}

TANDEM_ONCE double critical_batch_of_loss(double loss) {
  expects(loss > 0 && is_finite(loss),
          "critical_batch_of_loss(loss): give a loss that is positive");
  return 2.1e8 / std::pow(loss, 1 / 0.21);
}

}  // namespace tandem

#endif
