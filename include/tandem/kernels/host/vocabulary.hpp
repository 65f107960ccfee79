// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The rows of a softmax over a vocabulary: each row's loss in nats, whether it is right, and the
/// gradient over its logits in their place. The reference, in any T; the products are Linear's.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/vocabulary.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// results[r].loss = -Σ_v q_v log softmax(z)_v, q = (1 - smoothing) [v = target] + smoothing / V;
/// with a gradient then z = (softmax(z) - q) · *scale. A row without a target (-1) has the loss 0
/// and the gradient 0.
///
/// Shapes: logits (rows, V); targets (rows), or null: no row has one; scale (1), or null: the
///         logits stay; results (rows).
/// Cost:   V exponentials a row, twice that with the gradient.
/// Order:  a row by itself, the logits in order, in double.
/// @pre    -1 <= targets[r] < V. Logits may be as large as T holds; a NaN makes its row's loss one,
///         and the row is not right.
/// Source: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, arXiv:1512.00567, section 7 (smoothing)
template <class T>
TANDEM_NOINLINE void vocabulary_rows(Team& team, std::int64_t rows, int vocabulary, T* logits,
                                     std::int32_t const* targets, double smoothing,
                                     double const* scale, VocabularyRow* results) {
  team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    double const elsewhere = smoothing / vocabulary;
    for (std::int64_t r = begin; r < end; ++r) {
      T* const z = logits + r * vocabulary;
      std::int32_t const target = targets != nullptr ? targets[r] : -1;
      if (target < 0) {
        results[r] = {};
        if (scale != nullptr) {
          std::fill_n(z, vocabulary, T{0});
        }
        continue;
      }
      int best = 0;
      double sum = 0;
      for (int v = 0; v < vocabulary; ++v) {
        best = z[v] > z[best] ? v : best;
        sum += static_cast<double>(z[v]);
      }
      double const largest = static_cast<double>(z[best]);
      double total = 0;
      for (int v = 0; v < vocabulary; ++v) {
        total += std::exp(static_cast<double>(z[v]) - largest);
      }
      results[r] = vocabulary_row(largest, total, static_cast<double>(z[target]), sum, vocabulary,
                                  smoothing, best == target && total == total);
      for (int v = 0; v < vocabulary && scale != nullptr; ++v) {
        double const p = std::exp(static_cast<double>(z[v]) - largest) / total;
        z[v] = static_cast<T>((p - elsewhere - (v == target ? 1 - smoothing : 0)) * *scale);
      }
    }
  });
}

}  // namespace tandem::host
