// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// UpdateChunk: the part of the parameters that one block of the update's kernels works on;
/// ChunkRange: those of one parameter; ClipRow: its part in clipping.

#include <cstdint>

namespace tandem::cuda {

/// Parameters of a chunk: 16 for each thread of its block.
inline constexpr std::int64_t update_chunk = 4096;

/// Neighbouring parameters of one run, which is updated with one set of settings.
struct UpdateChunk {
  std::int64_t begin = 0;  ///< in the flat array of all parameters
  std::int32_t count = 0;
  std::int32_t run = 0;  ///< index of its run

  friend bool operator==(UpdateChunk const&, UpdateChunk const&) = default;
};

/// Chunks [first, last).
struct ChunkRange {
  std::int32_t first = 0;
  std::int32_t last = 0;

  friend bool operator==(ChunkRange const&, ChunkRange const&) = default;
};

/// How one parameter of the network counts in the norms that clip.
struct ClipRow {
  double factor = 1.0;   ///< of its square sum
  std::int32_t set = 0;  ///< which norm
};

}  // namespace tandem::cuda
