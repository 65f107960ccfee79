// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Softmax, cross entropy with label smoothing, and the counts of correct answers, in one pass.
///
/// With C classes and smoothing e the target is q = (1 - e) [c == label] + e / C, as in PyTorch.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem {

/// Sums over samples: divide by the number of samples for means.
struct ClassificationSums {
  double loss = 0;
  std::int64_t correct = 0;        ///< samples whose largest logit is the label's
  std::int64_t correct_top_k = 0;  ///< samples whose label is among the k largest logits
};

}  // namespace tandem

namespace tandem::host {

namespace detail {

/// What all of a row's losses and gradients share: its largest logit and sum of exp(z - largest).
struct SoftmaxRow {
  double largest;
  double total;
};

template <class T>
SoftmaxRow softmax_row(int classes, T const* z) {
  T largest = z[0];
  for (int c = 1; c < classes; ++c) {
    largest = z[c] > largest ? z[c] : largest;
  }
  double total = 0;
  for (int c = 0; c < classes; ++c) {
    total += static_cast<double>(std::exp(z[c] - largest));
  }
  return {static_cast<double>(largest), total};
}

/// How many logits stand before the label's in the ranking; `classes` if any logit is a NaN.
template <class T>
int rank_of_label(int classes, T const* z, std::int32_t label) {
  int before = 0;
  for (int c = 0; c < classes; ++c) {
    if (z[c] != z[c]) {
      return classes;
    }
    before += static_cast<int>(z[c] > z[label] || (z[c] == z[label] && c < label));
  }
  return before;
}

}  // namespace detail

/// Adds each sample's loss, -sum_c q_c log softmax(z)_c, and its counts to @p sums.
///
/// Shapes: logits (B, C), labels (B); losses (B), each sample's loss.
/// Cost:   B C exponentials.
/// Order:  the classes of a sample in order, in double; then the samples are added to sums.loss one
///         by one, so that a batch gives the same bits in one call or in several.
/// @pre    0 <= labels[s] < C; k >= 1. A row with a NaN is never correct, and its loss is a NaN;
///         of equal logits the lowest class ranks first.
/// Source: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, arXiv:1512.00567, section 7 (smoothing)
template <class T>
TANDEM_NOINLINE void softmax_cross_entropy_forward(Team& team, int batch, int classes,
                                                   T const* logits, std::int32_t const* labels,
                                                   double smoothing, int k, double* losses,
                                                   ClassificationSums& sums) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      T const* const z = logits + s * classes;
      auto const [largest, total] = detail::softmax_row(classes, z);
      double const log_normaliser = largest + std::log(total);
      double loss = (1 - smoothing) * (log_normaliser - static_cast<double>(z[labels[s]]));
      if (smoothing != 0) {
        double distances = 0;
        for (int c = 0; c < classes; ++c) {
          distances += log_normaliser - static_cast<double>(z[c]);
        }
        loss += smoothing / classes * distances;
      }
      losses[s] = loss;
    }
  });
  for (std::int64_t s = 0; s < batch; ++s) {
    int const before = detail::rank_of_label(classes, logits + s * classes, labels[s]);
    sums.loss += losses[s];
    sums.correct += before < 1 ? 1 : 0;
    sums.correct_top_k += before < std::min(k, classes) ? 1 : 0;
  }
}

/// dlogits = (softmax(z) - q) * scale.
///
/// Shapes: logits (B, C), labels (B); dlogits (B, C), which may be logits.
/// Cost:   2 B C exponentials.
/// Order:  the classes of a sample in order, in double.
/// @pre    0 <= labels[s] < C
template <class T>
TANDEM_NOINLINE void softmax_cross_entropy_gradient(Team& team, int batch, int classes,
                                                    T const* logits, std::int32_t const* labels,
                                                    double smoothing, double scale, T* dlogits) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    double const elsewhere = smoothing / classes;
    for (std::int64_t s = begin; s < end; ++s) {
      T const* const z = logits + s * classes;
      T* const dz = dlogits + s * classes;
      auto const [largest, total] = detail::softmax_row(classes, z);
      T const shift = static_cast<T>(largest);
      for (int c = 0; c < classes; ++c) {
        double const p = static_cast<double>(std::exp(z[c] - shift)) / total;
        double const q = c == labels[s] ? 1 - smoothing + elsewhere : elsewhere;
        dz[c] = static_cast<T>((p - q) * scale);
      }
    }
  });
}

}  // namespace tandem::host
