// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The rows of a softmax over a vocabulary of whose words several ranks have a slice each: what a
/// rank finds of its words, what all make of what they have found, and the gradient over a rank's
/// logits. Sends nothing.

#include <cmath>
#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/softmax_cross_entropy.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/kernels/cuda/vocabulary.cuh>
#include <tandem/kernels/functors/table_rows.hpp>
#include <tandem/kernels/functors/vocabulary.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

template <int Lanes, class T>
TANDEM_KERNEL void vocabulary_parts_kernel(T const* logits, std::int32_t const* targets,
                                           std::int64_t rows, WordRange words,
                                           ComputeType<T> lowest, VocabularyPart none,
                                           VocabularyPart* parts) {
  await_previous();
  using Real = ComputeType<T>;
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  int const target = place.works && targets != nullptr ? targets[place.row] : -1;
  bool const works = target >= 0;
  int const column = words.column(target);
  bool const here = works && column < words.count;
  T const* const z = logits + (place.works ? place.row * words.stride : 0);
  TargetLogit<Real> const at{here ? load(z[column]) : lowest, column};
  int before = 0;
  for (int c = place.lane; here && c < words.count; c += Lanes) {
    before += at.before(load(z[c]), c);
  }
  auto const part = softmax_row<Lanes>(z, words.count, place.lane, works, lowest);
  int const all_before = sum_lanes<Lanes>(before);
  if (place.works && place.lane == 0) {
    double const largest = static_cast<double>(part.largest);
    bool const right = here && all_before == 0;
    parts[place.row] = part.count == 0
                           ? none
                           : VocabularyPart{largest, right ? -part.total : part.total,
                                            here ? static_cast<double>(at.own) : none.own,
                                            words.count * largest - part.distance};
  }
}

/// Of row r: see join_vocabulary_parts().
template <class T>
struct JoinVocabularyParts {
  VocabularyPart* parts;
  std::int64_t rows;
  int slices;
  std::int32_t const* targets;
  int vocabulary;
  double smoothing;
  VocabularyPart* kept;
  T* y;

  TANDEM_HOST_DEVICE void operator()(std::int64_t r) const {
    join_vocabulary_slices(parts + r, rows, slices);
    VocabularyPart const all = parts[r];
    bool const counts = targets != nullptr && targets[r] >= 0;
    store_vocabulary_row(counts ? vocabulary_row(all, vocabulary, smoothing) : VocabularyRow{},
                         y + 3 * r);
    if (kept != nullptr) {
      kept[r] = all;
    }
  }
};

template <int Lanes, class T>
TANDEM_KERNEL void vocabulary_part_gradients_kernel(T* logits, std::int32_t const* targets,
                                                    std::int64_t rows, WordRange words,
                                                    VocabularyPart const* all,
                                                    ComputeType<T> lowest, ComputeType<T> on,
                                                    ComputeType<T> off, double const* scale) {
  await_previous();
  using Real = ComputeType<T>;
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  if (!place.works) {
    return;
  }
  int const target = targets != nullptr ? targets[place.row] : -1;
  VocabularyPart const part = all[place.row];
  VocabularyGradient<Real> const row{static_cast<Real>(part.largest),
                                     lowest,
                                     static_cast<Real>(std::fabs(part.total)),
                                     words.column(target),
                                     on,
                                     off};
  Real const factor = static_cast<Real>(*scale);
  T* const z = logits + place.row * words.stride;
  for (int c = place.lane; c < words.stride; c += Lanes) {
    bool const counts = target >= 0 && c < words.count;
    z[c] = store<T>(counts ? row(load(z[c]), c) * factor : Real{0});
  }
}

}  // namespace detail

/// parts[r] of the words that a rank has.
///
/// Shapes: logits (rows, stride); targets (rows) of all words, or null; parts (rows). All in the
///         device's memory.
/// Cost:   reads the logits, those of the target's rank twice, the second time from a cache. One
///         launch.
/// Order:  as vocabulary_rows().
/// @pre    -1 <= targets[r]
template <class T>
void vocabulary_parts(Stream const& stream, T const* logits, std::int32_t const* targets,
                      std::int64_t rows, WordRange words, VocabularyPart* parts) {
  constexpr auto lowest = -std::numeric_limits<ComputeType<T>>::infinity();
  with_row_lanes(words.stride, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::vocabulary_parts_kernel<n, T>, blocks_for(rows, row_threads / n), row_threads,
           stream, logits, targets, rows, words, lowest, no_words, parts);
  });
}

/// parts[r] of all words, and y[r] as vocabulary_rows() has it, from those of each slice,
/// parts[slice * rows + r]; other slices' are overwritten.
///
/// Shapes: parts (slices, rows); targets (rows) of all words, or null; kept (rows), where parts[r]
///         are written, too, or null; y (rows, 3).
/// Cost:   reads the parts once; slices - 1 joins a row. One launch.
/// Order:  that of Host's join_vocabulary_parts().
/// @param vocabulary  words of all ranks, over which the target is smoothed
template <class T>
void join_vocabulary_parts(Stream const& stream, std::int64_t rows, int slices,
                           std::int32_t const* targets, int vocabulary, double smoothing,
                           VocabularyPart* parts, VocabularyPart* kept, T* y) {
  each(
      stream, rows,
      detail::JoinVocabularyParts<T>{parts, rows, slices, targets, vocabulary, smoothing, kept, y});
}

/// The gradient over the logits of the words that a rank has, in their place; 0 of rows without a
/// target and of what is nobody's.
///
/// Shapes: as vocabulary_parts(); all (rows), of all words; scale (1).
/// Cost:   reads and writes the logits once. One launch.
/// @param vocabulary  as join_vocabulary_parts()
template <class T>
void vocabulary_part_gradients(Stream const& stream, T* logits, std::int32_t const* targets,
                               std::int64_t rows, WordRange words, int vocabulary,
                               VocabularyPart const* all, double smoothing, double const* scale) {
  using Real = ComputeType<T>;
  constexpr Real lowest = -std::numeric_limits<Real>::infinity();
  double const elsewhere = smoothing / vocabulary;
  with_row_lanes(words.stride, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    launch(detail::vocabulary_part_gradients_kernel<n, T>, blocks_for(rows, row_threads / n),
           row_threads, stream, logits, targets, rows, words, all, lowest,
           static_cast<Real>(1 - smoothing + elsewhere), static_cast<Real>(elsewhere), scale);
  });
}

}  // namespace tandem::cuda
