// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// VocabularyRow: what a criterion over a vocabulary finds of one row of logits.

#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>

namespace tandem {

/// Of a row without a target: all 0.
struct VocabularyRow {
  double loss = 0.0;       ///< in nats
  std::int64_t right = 0;  ///< 1 if the target's logit is the largest, the first of equals
};

/// From a row's largest logit, Σ exp(z - largest), the target's logit and Σ z.
TANDEM_HOST_DEVICE inline VocabularyRow vocabulary_row(double largest, double total, double own,
                                                       double sum, int vocabulary, double smoothing,
                                                       bool right) {
  double const log_total = std::log(total);
  double loss = (1.0 - smoothing) * (log_total + (largest - own));
  if (smoothing != 0.0) {
    loss += smoothing * (log_total + (largest - sum / vocabulary));
  }
  return {loss, right ? 1 : 0};
}

}  // namespace tandem
