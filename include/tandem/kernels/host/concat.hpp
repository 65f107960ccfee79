// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Concatenation along the channels: each part is one contiguous slice of each sample.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Writes one part into its slice of the concatenated tensor.
///
/// Shapes: x (B, part); y (B, whole), of which [offset, offset + part) of each sample is written.
/// Cost:   reads and writes B part elements; bound by memory.
/// @pre    0 <= offset and offset + part <= whole, all in elements of one sample
template <class T>
TANDEM_NOINLINE void concat_forward(Team& team, int batch, std::int64_t part, std::int64_t offset,
                                    std::int64_t whole, T const* x, T* y) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      std::copy(x + s * part, x + (s + 1) * part, y + s * whole + offset);
    }
  });
}

/// Reads one part's gradient out of its slice of the concatenated gradient.
///
/// Shapes: dy (B, whole); dx (B, part).
/// Cost:   reads and writes B part elements; bound by memory.
/// @pre    0 <= offset and offset + part <= whole, all in elements of one sample
template <class T>
TANDEM_NOINLINE void concat_gradient(Team& team, int batch, std::int64_t part, std::int64_t offset,
                                     std::int64_t whole, T const* dy, T* dx) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      T const* const slice = dy + s * whole + offset;
      std::copy(slice, slice + part, dx + s * part);
    }
  });
}

}  // namespace tandem::host
