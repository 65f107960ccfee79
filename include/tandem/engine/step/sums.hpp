// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepSums: the loss and the metric of every microbatch of a global batch, in double.
///
/// A rank writes the slots of its own microbatches; a sum over the ranks, zeros elsewhere, gives
/// every rank all of them without rounding, so that the totals have the same bits on any number.

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include <tandem/core/finite.hpp>
#include <tandem/engine/step/state.hpp>

namespace tandem {

/// The means over result.weight, and the first microbatch whose loss is not finite; @p sums are
/// pairs of loss and metric.
template <class = void>  // compiled where it is called, not by every include
void finish_sums(std::span<double const> sums, StepResult& result) {
  double loss = 0.0;
  double metric = 0.0;
  for (std::size_t i = 0; i < sums.size(); i += 2) {
    loss += sums[i];
    metric += sums[i + 1];
  }
  double const divisor = result.weight > 0.0 ? result.weight : 1.0;  // of no targets: 0
  result.loss = loss / divisor;
  result.metric = metric / divisor;
  if (!is_finite(loss)) {
    std::size_t first = 0;  // also where only the sum of finite losses overflows
    for (std::size_t i = sums.size(); i > 0; i -= 2) {
      first = is_finite(sums[i - 2]) ? first : i / 2 - 1;
    }
    result.non_finite = static_cast<int>(first);
  }
}

/// In the memory of a device; the primary template is for devices that share the host's.
template <class Backend>
class StepSums {
 public:
  using Device = typename Backend::Device;

  template <class = void>
  StepSums(Device& /*device*/, int microbatches)
      : sums_(2 * static_cast<std::size_t>(microbatches)) {}

  void clear(Device& /*device*/) { std::fill(sums_.begin(), sums_.end(), 0.0); }

  /// Zeros for one microbatch.
  void clear(Device& /*device*/, int microbatch) { *loss(microbatch) = *metric(microbatch) = 0.0; }

  /// Zeros, or for a no a loss that leaves no sum finite.
  void vote(Device& device, bool yes) {
    clear(device);
    *loss(0) = yes ? 0.0 : std::numeric_limits<double>::infinity();
  }

  [[nodiscard]] double* loss(int microbatch) {
    return &sums_[2 * static_cast<std::size_t>(microbatch)];
  }
  [[nodiscard]] double* metric(int microbatch) { return loss(microbatch) + 1; }

  /// What is to be summed over the ranks.
  [[nodiscard]] std::span<double> all() { return sums_; }

  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }

  /// Fills in *result, but for its norm.
  /// @param state    in the device's memory
  /// @param samples  of the global batch
  void finish(Device& /*device*/, StepState const* state, int samples, StepResult* result) const {
    result->samples = samples;
    result->weight = state->targets >= 0.0 ? state->targets : samples;
    finish_sums(sums_, *result);
  }

 private:
  std::vector<double> sums_;
};

}  // namespace tandem
