// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The rows of a softmax over a vocabulary: each row's loss in nats, whether it is right, and the
/// gradient over its logits in their place; and the same of a run of its words, where other ranks
/// have the others. The reference, in any T; the products are Linear's.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/table_rows.hpp>
#include <tandem/kernels/functors/vocabulary.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Of logits z of @p count words. @p target: a column, or count where it is none of these.
template <class T>
VocabularyPart vocabulary_part(int count, T const* z, int target) {
  if (count == 0) {
    return no_words;
  }
  int best = 0;
  double sum = 0;
  for (int v = 0; v < count; ++v) {
    best = z[v] > z[best] ? v : best;
    sum += static_cast<double>(z[v]);
  }
  double const largest = static_cast<double>(z[best]);
  double total = 0;
  for (int v = 0; v < count; ++v) {
    total += std::exp(static_cast<double>(z[v]) - largest);
  }
  return {largest, best == target ? -total : total,
          target < count ? static_cast<double>(z[target]) : no_words.own, sum};
}

/// z = (softmax(z) - q) · scale, q being @p elsewhere and at the target @p on_target more.
/// @param all  of all of the row's words
template <class T>
void vocabulary_gradient(int count, T* z, int target, VocabularyPart const& all, double elsewhere,
                         double on_target, double scale) {
  double const total = std::fabs(all.total);
  for (int v = 0; v < count; ++v) {
    double const p = std::exp(static_cast<double>(z[v]) - all.largest) / total;
    z[v] = static_cast<T>((p - elsewhere - (v == target ? on_target : 0)) * scale);
  }
}

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
      VocabularyPart const all = vocabulary_part(vocabulary, z, target);
      results[r] = vocabulary_row(all, vocabulary, smoothing);
      if (scale != nullptr) {
        vocabulary_gradient(vocabulary, z, target, all, elsewhere, 1 - smoothing, *scale);
      }
    }
  });
}

/// parts[r] of the words that a rank has.
///
/// Shapes: logits (rows, stride); targets (rows) of all words, or null; parts (rows).
/// Cost:   count exponentials a row.
/// @tparam Row  vocabulary_part(), of this reference or of another
template <class T, class Row>
TANDEM_NOINLINE void vocabulary_parts(Team& team, std::int64_t rows, WordRange words,
                                      T const* logits, std::int32_t const* targets,
                                      VocabularyPart* parts, Row const& row) {
  team.parallel_for(rows, [=, &row](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      bool const counts = targets != nullptr && targets[r] >= 0;
      parts[r] =
          counts ? row(words.count, logits + r * words.stride, words.column(targets[r])) : no_words;
    }
  });
}

/// parts[r] of all words from those of each slice, parts[slice · rows + r].
TANDEM_COLD inline void join_vocabulary_parts(Team& team, std::int64_t rows, int slices,
                                              VocabularyPart* parts) {
  team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      join_vocabulary_slices(parts + r, rows, slices);
    }
  });
}

/// The gradient over the logits of the words that a rank has, in their place; 0 of rows without a
/// target and of what is nobody's.
///
/// Shapes: as vocabulary_parts(); all (rows), of all words; scale (1).
/// @param vocabulary  words of all ranks, over which the target is smoothed
/// @tparam Row        vocabulary_gradient(), of this reference or of another
template <class T, class Row>
TANDEM_NOINLINE void vocabulary_part_gradients(Team& team, std::int64_t rows, WordRange words,
                                               int vocabulary, T* logits,
                                               std::int32_t const* targets,
                                               VocabularyPart const* all, double smoothing,
                                               double const* scale, Row const& row) {
  double const elsewhere = smoothing / vocabulary;
  team.parallel_for(rows, [=, &row](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      T* const z = logits + r * words.stride;
      bool const counts = targets != nullptr && targets[r] >= 0;
      if (counts) {
        row(words.count, z, words.column(targets[r]), all[r], elsewhere, 1 - smoothing, *scale);
      }
      std::fill(z + (counts ? words.count : 0), z + words.stride, T{});
    }
  });
}

}  // namespace tandem::host
