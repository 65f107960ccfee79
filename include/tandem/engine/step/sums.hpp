// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepSums: the loss and the metrics of every microbatch of a global batch, in double.
///
/// A rank writes the slots of its own microbatches; a sum over the ranks, zeros elsewhere, gives
/// every rank all of them without rounding, so that the totals have the same bits on any number.

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/engine/step/state.hpp>

namespace tandem {

/// The mean losses over result.weight and metrics over result.counted, and the first microbatch
/// whose loss is not finite.
/// @param sums  of each microbatch its loss and @p metrics metrics
template <class = void>  // compiled where it is called, not by every include
TANDEM_COLD void finish_sums(std::span<double const> sums, int metrics, StepResult& result) {
  std::size_t const each = 1 + static_cast<std::size_t>(metrics);
  auto const sum = [&](std::size_t which) {
    double all = 0.0;
    for (std::size_t i = which; i < sums.size(); i += each) {
      all += sums[i];
    }
    return all;
  };
  auto const mean = [](double all, double over) {  // of no targets: 0
    return all / (over > 0.0 ? over : 1.0);
  };
  double const loss = sum(0);
  result.loss = mean(loss, result.weight);
  for (int m = 0; m < metrics; ++m) {
    result.metrics.value[m] = mean(sum(1 + static_cast<std::size_t>(m)), result.counted);
  }
  result.metric = result.metrics.value[0];
  if (!is_finite(loss)) {
    std::size_t first = 0;  // also where only the sum of finite losses overflows
    for (std::size_t i = sums.size(); i > 0; i -= each) {
      first = is_finite(sums[i - each]) ? first : i / each - 1;
    }
    result.non_finite = static_cast<int>(first);
  }
}

/// In the memory of a device; the primary template is for devices that share the host's.
template <class Backend>
class StepSums {
 public:
  using Device = typename Backend::Device;

  /// @param metrics  sums that each microbatch has besides its loss
  template <class = void>
  StepSums(Device& /*device*/, int microbatches, int metrics = 1)
      : metrics_{metrics},
        sums_((1 + static_cast<std::size_t>(metrics)) * static_cast<std::size_t>(microbatches)) {}

  void clear(Device& /*device*/) { std::fill(sums_.begin(), sums_.end(), 0.0); }

  /// Zeros for one microbatch.
  void clear(Device& /*device*/, int microbatch) {
    std::fill_n(loss(microbatch), 1 + metrics_, 0.0);
  }

  /// Zeros, or for a no a loss that leaves no sum finite.
  void vote(Device& device, bool yes) {
    clear(device);
    *loss(0) = yes ? 0.0 : std::numeric_limits<double>::infinity();
  }

  [[nodiscard]] double* loss(int microbatch) {
    return &sums_[(1 + static_cast<std::size_t>(metrics_)) * static_cast<std::size_t>(microbatch)];
  }
  /// The first of its metrics.
  [[nodiscard]] double* metric(int microbatch) { return loss(microbatch) + 1; }

  /// The metrics of microbatch 0, and none of a loss.
  void put(Device& device, std::span<double const> metrics) {
    clear(device);
    std::copy(metrics.begin(), metrics.end(), metric(0));
  }
  /// @pre the device has done what is queued
  void get(Device& /*device*/, std::span<double> metrics) {
    std::copy_n(metric(0), metrics.size(), metrics.begin());
  }

  /// What is to be summed over the ranks.
  [[nodiscard]] std::span<double> all() { return sums_; }

  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }

  /// Fills in *result, but for its norm.
  /// @param state    in the device's memory
  /// @param samples  of the global batch
  void finish(Device& /*device*/, StepState const* state, int samples, StepResult* result) const {
    result->samples = samples;
    result->weight = state->targets >= 0.0 ? state->targets : samples;
    result->counted = state->counted >= 0.0 ? state->counted : samples;
    finish_sums(sums_, metrics_, *result);
  }

 private:
  int metrics_;
  std::vector<double> sums_;
};

}  // namespace tandem
