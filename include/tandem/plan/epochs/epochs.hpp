// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// EpochCurve: E(B), the epochs that training takes to its target accuracy, as a function of the
/// global batch B; and how well such a curve predicts points that it has not seen.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/plan/epochs/critical_batch.hpp>
#include <tandem/plan/epochs/epoch_points.hpp>

namespace tandem {

/// Measured points, between two of which log E is linear in log B: each doubling of the batch
/// multiplies epochs by the same factor.
///
/// Below the first point E is that point's: a smaller batch needs no more epochs, and how many
/// fewer is not known. Above the last point the last segment goes on, or is level if it falls: that
/// a larger batch needs fewer epochs is noise. A single point is a constant.
class MeasuredEpochs {
 public:
  /// @throws ContractError  there is no point, or they are not as check_epoch_points() wants them
  explicit MeasuredEpochs(std::vector<EpochPoint> points) : point_{std::move(points)} {
    check_epoch_points(point_, 1);
  }

  [[nodiscard]] std::vector<EpochPoint> const& points() const { return point_; }

  /// @pre batch > 0
  TANDEM_ONCE [[nodiscard]] double epochs(double batch) const;

 private:
  std::vector<EpochPoint> point_;
};

/// Epochs as a function of the global batch, in one of three ways.
class EpochCurve {
 public:
  /// Through points, see MeasuredEpochs.
  /// @throws ContractError  as MeasuredEpochs
  [[nodiscard]] static EpochCurve measured(std::vector<EpochPoint> points) {
    return EpochCurve{MeasuredEpochs{std::move(points)}};
  }
  /// The critical-batch law nearest to points.
  /// @throws ContractError  as fit_critical_batch()
  [[nodiscard]] static EpochCurve fitted(std::vector<EpochPoint> const& points) {
    return EpochCurve{fit_critical_batch(points)};
  }
  /// The critical-batch law through one point, its critical batch the gradient noise scale.
  /// @throws ContractError  as critical_batch_of_noise()
  [[nodiscard]] static EpochCurve of_noise(double noise_scale, EpochPoint const& point) {
    return EpochCurve{critical_batch_of_noise(noise_scale, point)};
  }

  /// E(batch). Cost: O(log points).
  /// @throws ContractError  @p batch is not positive, or the points are so steep that E is above
  ///                        1e15 or 0 there
  TANDEM_ONCE [[nodiscard]] double epochs(double batch) const;

  /// Whether @p batch is outside the points, so that epochs() is a guess there.
  TANDEM_ONCE [[nodiscard]] bool extrapolates(double batch) const;

  /// The law, with its standard errors and intervals; null if the curve goes through points.
  [[nodiscard]] CriticalBatchLaw const* law() const {
    return std::get_if<CriticalBatchLaw>(&form_);
  }

 private:
  explicit EpochCurve(std::variant<MeasuredEpochs, CriticalBatchLaw> form)
      : form_{std::move(form)} {}

  std::variant<MeasuredEpochs, CriticalBatchLaw> form_;
};

/// What a curve through the other points says of a point.
struct LeftOutPoint {
  EpochPoint point{};
  double predicted = 0;
  bool extrapolated = false;  ///< it was the first or the last

  /// |predicted / measured - 1|
  [[nodiscard]] double error() const { return std::fabs(predicted / point.epochs - 1); }
};

/// Leaves out each point in turn and predicts it from the others.
/// @param make  from points to a curve: EpochCurve::measured or EpochCurve::fitted
/// @throws ContractError  what @p make throws on one point fewer
template <class Make>
[[nodiscard]] std::vector<LeftOutPoint> leave_one_out(std::vector<EpochPoint> const& points,
                                                      Make const& make) {
  std::vector<LeftOutPoint> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<EpochPoint> others = points;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    EpochCurve const curve = make(others);
    double const batch = points[i].batch;
    out.push_back({points[i], curve.epochs(batch), curve.extrapolates(batch)});
  }
  return out;
}

/// The median of the errors; of an even number, the mean of the middle two.
/// @throws ContractError  there is no point
TANDEM_ONCE [[nodiscard]] double median_error(std::vector<LeftOutPoint> const& left_out);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE double median_error(std::vector<LeftOutPoint> const& left_out) {
  expects(!left_out.empty(), "median_error(left_out): give at least one point");
  std::vector<double> errors;
  for (LeftOutPoint const& each : left_out) {
    errors.push_back(each.error());
  }
  std::sort(errors.begin(), errors.end());
  std::size_t const half = errors.size() / 2;
  return errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
}

TANDEM_ONCE double MeasuredEpochs::epochs(double batch) const {
  EpochPoint const& last = point_.back();
  if (batch <= point_.front().batch || point_.size() == 1) {
    return point_.front().epochs;
  }
  auto upper = std::lower_bound(point_.begin(), point_.end() - 1, batch,
                                [](EpochPoint const& p, double b) { return p.batch < b; });
  EpochPoint const& from = upper[-1];
  double slope = std::log(upper->epochs / from.epochs) / std::log(upper->batch / from.batch);
  if (batch >= last.batch) {
    return last.epochs * std::pow(batch / last.batch, std::max(0.0, slope));
  }
  return from.epochs * std::pow(batch / from.batch, slope);
}

TANDEM_ONCE double EpochCurve::epochs(double batch) const {
  expects(batch > 0, "EpochCurve::epochs(batch): give a batch of at least one sample");
  double const epochs = std::visit([&](auto const& form) { return form.epochs(batch); }, form_);
  expects(epochs > 0 && epochs <= 1e15,
          "EpochCurve::epochs(batch): there would be no epochs or more than 1e15, so steep are the "
          "points; give points whose batches are further apart");
  return epochs;
}

TANDEM_ONCE bool EpochCurve::extrapolates(double batch) const {
  if (auto const* points = std::get_if<MeasuredEpochs>(&form_)) {
    return batch < points->points().front().batch || batch > points->points().back().batch;
  }
  return batch < law()->first_batch || batch > law()->last_batch;
}

}  // namespace tandem

#endif
