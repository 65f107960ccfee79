// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// VocabularyRow: what a criterion over a vocabulary finds of one row of logits; VocabularyPart: of
/// a run of its words, and how ranks that have such runs join them.

#include <cmath>
#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>

namespace tandem {

/// Of a row without a target: all 0.
struct VocabularyRow {
  double loss = 0.0;       ///< in nats
  std::int64_t right = 0;  ///< 1 if the target's logit is the largest, the first of equals
};

/// What is found of a row of logits, or of a run of its words: four numbers, which ranks that have
/// such runs send each other.
struct VocabularyPart {
  double largest = 0.0;  ///< logit; -infinity of no words
  double total = 0.0;    ///< Σ exp(z - largest), with a minus where the target's logit is the
                         ///< largest, the first of equals
  double own = 0.0;      ///< the target's logit; -infinity where the target is another run's
  double sum = 0.0;      ///< Σ z

  [[nodiscard]] TANDEM_HOST_DEVICE bool right() const { return total < 0.0; }
};

/// What a row without a target has, and a rank without words.
inline constexpr VocabularyPart no_words{-std::numeric_limits<double>::infinity(), 0.0,
                                         -std::numeric_limits<double>::infinity(), 0.0};

/// Of two runs of words, @p a before @p b.
TANDEM_HOST_DEVICE inline VocabularyPart join(VocabularyPart const& a, VocabularyPart const& b) {
  double const largest = b.largest > a.largest ? b.largest : a.largest;
  double const of_a = a.largest == largest ? 1.0 : std::exp(a.largest - largest);
  double const of_b = b.largest == largest ? 1.0 : std::exp(b.largest - largest);
  double const total = std::fabs(a.total) * of_a + std::fabs(b.total) * of_b;
  bool const right = b.largest > a.largest ? b.right() : a.right();
  return {largest, right ? -total : total, b.own > a.own ? b.own : a.own, a.sum + b.sum};
}

/// A row's part of all words, in its first slice's place, from those of each slice, of which the
/// n-th is parts[n · rows]: two neighbours at a time, so that the tree is one of the slices'
/// numbers.
TANDEM_HOST_DEVICE inline void join_vocabulary_slices(VocabularyPart* parts, std::int64_t rows,
                                                      int slices) {
  for (int step = 1; step < slices; step *= 2) {
    for (int slice = 0; slice + step < slices; slice += 2 * step) {
      VocabularyPart& first = parts[slice * rows];
      first = join(first, parts[(slice + step) * rows]);
    }
  }
}

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

/// From what is found of all of a row's words.
TANDEM_HOST_DEVICE inline VocabularyRow vocabulary_row(VocabularyPart const& all, int vocabulary,
                                                       double smoothing) {
  return vocabulary_row(all.largest, std::fabs(all.total), all.own, all.sum, vocabulary, smoothing,
                        all.right());
}

}  // namespace tandem
