// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CriticalBatchLaw: E(B) = E_min (1 + B / B_crit), a straight line in the batch, fitted to points
/// or taken from a gradient noise scale.
///
/// Source: McCandlish et al., "An Empirical Model of Large-Batch Training", arXiv:1812.06162,
/// section 2: with S steps and E epochs, (S / S_min - 1) (E / E_min - 1) = 1, and B_crit is about
/// the noise scale.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/plan/epochs/epoch_points.hpp>

namespace tandem {

/// Where a quantity lies with a confidence of 95 %.
struct ConfidenceInterval {
  double low = 0;
  double high = 0;
};

namespace detail {

/// The 97.5 % quantile of Student's t distribution, within 0.1 %: a table, from 11 degrees of
/// freedom on the expansion around the normal distribution (Abramowitz and Stegun, 26.7.5).
constexpr double student_quantile(int freedom) {
  constexpr double table[] = {12.706, 4.303, 3.182, 2.776, 2.571,
                              2.447,  2.365, 2.306, 2.262, 2.228};
  return freedom <= 10 ? table[freedom - 1] : 1.960 + (2.372 + 2.822 / freedom) / freedom;
}

}  // namespace detail

/// The line E(B) = mean_epochs + slope (B - mean_batch). Written so, the errors of its two
/// coefficients are independent.
struct CriticalBatchLaw {
  double mean_batch = 0;
  double mean_epochs = 0;
  double slope = 0;  ///< epochs a sample, not negative
  double variance_of_mean = 0;
  double variance_of_slope = 0;
  int freedom = 0;         ///< degrees of it in the residuals; at 0 errors are not known
  double first_batch = 0;  ///< the smallest and …
  double last_batch = 0;   ///< … the largest batch among the points

  [[nodiscard]] double epochs(double batch) const {
    return mean_epochs + slope * (batch - mean_batch);
  }

  /// E_min, which small batches need.
  [[nodiscard]] double least_epochs() const { return epochs(0); }
  /// B_crit, where a batch needs twice as many; infinite if epochs do not grow.
  [[nodiscard]] double critical_batch() const {
    return slope > 0 ? least_epochs() / slope : std::numeric_limits<double>::infinity();
  }

  /// Of epochs(batch): one standard deviation; infinite if it is not known.
  [[nodiscard]] double standard_error(double batch) const {
    double const distance = batch - mean_batch;
    return freedom == 0 ? std::numeric_limits<double>::infinity()
                        : std::sqrt(variance_of_mean + distance * distance * variance_of_slope);
  }
  /// Of least_epochs().
  [[nodiscard]] double least_epochs_error() const { return standard_error(0); }
  /// Of critical_batch(), to first order; infinite if it is not known or epochs do not grow.
  TANDEM_ONCE [[nodiscard]] double critical_batch_error() const;

  /// Where the law's E(batch) lies, given the scatter of the points around it; a single run
  /// scatters by more. From 0 to infinity if errors are not known.
  TANDEM_ONCE [[nodiscard]] ConfidenceInterval interval(double batch) const;
};

/// The law whose relative errors, weighted with the points' weights, have the least sum of squares;
/// epochs that fall with the batch give slope 0.
///
/// Errors come from the residuals, not from the weights' absolute size. Two points fit exactly and
/// tell nothing of them.
/// @throws ContractError  there are fewer than two points, they are not as check_epoch_points()
///                        wants them, or they rise so steeply that E_min would not be positive
TANDEM_ONCE [[nodiscard]] CriticalBatchLaw fit_critical_batch(
    std::vector<EpochPoint> const& points);

/// The law through one point with B_crit = @p noise_scale, the gradient noise scale B_noise in
/// samples. Its errors are not known.
/// @throws ContractError  a number is not positive
TANDEM_ONCE [[nodiscard]] CriticalBatchLaw critical_batch_of_noise(double noise_scale,
                                                                   EpochPoint const& point);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE CriticalBatchLaw fit_critical_batch(std::vector<EpochPoint> const& points) {
  check_epoch_points(points, 2);
  auto const weight = [](EpochPoint const& p) { return p.weight / (p.epochs * p.epochs); };
  CriticalBatchLaw law{.freedom = static_cast<int>(points.size()) - 2,
                       .first_batch = points.front().batch,
                       .last_batch = points.back().batch};
  double weights = 0;
  for (EpochPoint const& p : points) {
    weights += weight(p);
    law.mean_batch += weight(p) * p.batch;
    law.mean_epochs += weight(p) * p.epochs;
  }
  law.mean_batch /= weights;
  law.mean_epochs /= weights;
  double spread = 0;
  double common = 0;
  for (EpochPoint const& p : points) {
    spread += weight(p) * (p.batch - law.mean_batch) * (p.batch - law.mean_batch);
    common += weight(p) * (p.batch - law.mean_batch) * (p.epochs - law.mean_epochs);
  }
  law.slope = std::max(0.0, common / spread);
  expects(law.least_epochs() > 0,
          "fit_critical_batch(points): epochs rise faster with the batch than E_min (1 + B / "
          "B_crit) can; interpolate between the points instead");
  if (law.freedom > 0) {
    double squares = 0;
    for (EpochPoint const& p : points) {
      double const residual = p.epochs - law.epochs(p.batch);
      squares += weight(p) * residual * residual;
    }
    law.variance_of_mean = squares / law.freedom / weights;
    law.variance_of_slope = squares / law.freedom / spread;
  }
  return law;
}

TANDEM_ONCE CriticalBatchLaw critical_batch_of_noise(double noise_scale, EpochPoint const& point) {
  expects(noise_scale > 0 && is_finite(noise_scale),
          "critical_batch_of_noise(noise_scale, point): give a noise scale that is positive");
  check_epoch_points({point}, 1);
  return {.mean_batch = point.batch,
          .mean_epochs = point.epochs,
          .slope = point.epochs / (noise_scale + point.batch),
          .first_batch = point.batch,
          .last_batch = point.batch};
}

TANDEM_ONCE double CriticalBatchLaw::critical_batch_error() const {
  // d(a / c) = (da - B_crit dc) / c with a = mean_epochs - c mean_batch: the line's error at
  // B = -B_crit, where it is 0, over its slope.
  return slope > 0 ? standard_error(-critical_batch()) / slope
                   : std::numeric_limits<double>::infinity();
}

TANDEM_ONCE ConfidenceInterval CriticalBatchLaw::interval(double batch) const {
  if (freedom == 0) {
    return {0, std::numeric_limits<double>::infinity()};
  }
  double const reach = detail::student_quantile(freedom) * standard_error(batch);
  return {std::max(0.0, epochs(batch) - reach), epochs(batch) + reach};
}

}  // namespace tandem

#endif
