// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The rows of a value: a sequence has one for each time, a vector is one.

#include <tandem/core/shape.hpp>

namespace tandem {

namespace detail {

// Of an op that treats the rows of a sequence alike, or a vector as one row.
constexpr bool has_rows(Shape in) { return in.rank == (in.timed ? 2 : 1); }

// Numbers of one such row.
constexpr int row_size(Shape in) { return in[in.rank > 0 ? in.rank - 1 : 0]; }

// The same rows, of another size.
constexpr Shape with_row_size(Shape in, int size) {
  return in.timed ? timed_shape(in[0], size) : vector_shape(size);
}

}  // namespace detail

}  // namespace tandem
