// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepSums: the loss and the metric of every microbatch of a global batch, in double.
///
/// A rank writes the slots of its own microbatches; a sum over the ranks, zeros elsewhere, gives
/// every rank all of them without rounding, so that the totals have the same bits on any number.

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <tandem/engine/state.hpp>

namespace tandem {

class StepSums {
 public:
  template <class = void>  // compiled where it is called, not by every include
  explicit StepSums(int microbatches) : sums_(2 * static_cast<std::size_t>(microbatches)) {}

  void clear() { std::fill(sums_.begin(), sums_.end(), 0.0); }

  [[nodiscard]] double* loss(int microbatch) {
    return &sums_[2 * static_cast<std::size_t>(microbatch)];
  }
  [[nodiscard]] double* metric(int microbatch) { return loss(microbatch) + 1; }

  /// What is to be summed over the ranks.
  [[nodiscard]] std::span<double> all() { return sums_; }

  /// The means over result.samples, and the first microbatch whose loss is not finite.
  template <class = void>
  void finish(StepResult& result) const {
    double loss = 0.0;
    double metric = 0.0;
    for (std::size_t i = 0; i < sums_.size(); i += 2) {
      loss += sums_[i];
      metric += sums_[i + 1];
    }
    result.loss = loss / result.samples;
    result.metric = metric / result.samples;
    if (!std::isfinite(loss)) {
      std::size_t first = 0;  // also where only the sum of finite losses overflows
      for (std::size_t i = sums_.size(); i > 0; i -= 2) {
        first = std::isfinite(sums_[i - 2]) ? first : i / 2 - 1;
      }
      result.non_finite = static_cast<int>(first);
    }
  }

 private:
  std::vector<double> sums_;
};

}  // namespace tandem
