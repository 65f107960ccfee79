// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GradientRows: the gradient of a parameter of which a step touches few rows: their numbers, and a
/// row of values for each; and RowsTouched, by which a parameter says how many these are at most.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>

namespace tandem {

/// Rows, along axis 0 of a parameter, that a step may give a gradient: so many a sample, and so
/// many that are the same in each of its passes. None at all: its gradient is dense.
struct RowsTouched {
  int of_sample = 0;  ///< as the T indices of an Embedding
  int of_step = 0;    ///< as what a sampled softmax draws once for the global batch

  [[nodiscard]] constexpr bool sparse() const { return of_sample > 0 || of_step > 0; }

  /// Of @p passes over microbatches of @p batch samples, in a parameter of @p rows rows.
  [[nodiscard]] constexpr std::int64_t most(std::int64_t rows, std::int64_t batch,
                                            std::int64_t passes = 1) const {
    return std::min(rows, of_step + passes * batch * of_sample);
  }

  friend constexpr bool operator==(RowsTouched const&, RowsTouched const&) = default;
};

/// A view of such a gradient. Rows that are not named have the gradient 0.
///
/// Shapes: count (1); row (most), of which the first *count are the numbers, ascending, no two
///         alike; value (most, width), of which as many.
/// Order:  microbatches are added one after another, leaves and replicas in the tree of a dense
///         gradient. A row that one of the summands lacks is +0 there; no sum here is ever -0,
///         since each begins with +0: so leaving +0 out gives the bits of adding it.
template <class P>
struct GradientRows {
  std::int32_t* count = nullptr;
  std::int32_t* row = nullptr;
  P* value = nullptr;
  std::int64_t most = 0;
  int width = 0;
  int limit = 0;                 ///< of the parameter: the numbers are below it
  std::byte* scratch = nullptr;  ///< of one operation on it at a time, as Verbs asks for
  std::int64_t scratch_bytes = 0;

  [[nodiscard]] TANDEM_HOST_DEVICE P* values_of(std::int64_t i) const { return value + i * width; }
};

/// What is done with a parameter's GradientRows, and may take scratch.
struct RowScratch {
  std::int64_t keys = 0;     ///< numbers that a pass names, some of them twice
  std::int64_t most = 0;     ///< rows of a replica
  std::int64_t block = 0;    ///< bytes of them
  int limit = 1;             ///< of GradientRows
  bool accumulates = false;  ///< several passes add to the same rows
  bool tree = false;         ///< add_rows
  int replicas = 1;          ///< whose rows sum_rows adds
};

namespace detail {

constexpr std::int64_t whole_lines(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Of the count and the numbers.
constexpr std::int64_t row_numbers_bytes(std::int64_t most) {
  return whole_lines((1 + most) * static_cast<std::int64_t>(sizeof(std::int32_t)));
}

}  // namespace detail

/// Bytes of the block of memory that a GradientRows stands in, which travels as a whole: the count
/// and the numbers, to a multiple of 64 bytes, and the values, likewise.
constexpr std::int64_t gradient_rows_bytes(std::int64_t most, std::int64_t width,
                                           std::int64_t element_bytes) {
  return detail::row_numbers_bytes(most) + detail::whole_lines(most * width * element_bytes);
}
/// The same in elements of P.
template <class P>
constexpr std::int64_t gradient_rows_elements(std::int64_t most, std::int64_t width) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(P));
  return gradient_rows_bytes(most, width, size) / size;
}

/// The view of such a block.
template <class P>
GradientRows<P> gradient_rows(P* block, std::int64_t most, int width) {
  auto* const numbers = reinterpret_cast<std::int32_t*>(block);
  return {.count = numbers,
          .row = numbers + 1,
          .value = block + detail::row_numbers_bytes(most) / static_cast<std::int64_t>(sizeof(P)),
          .most = most,
          .width = width};
}

}  // namespace tandem
