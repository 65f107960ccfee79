// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Range: a named stretch of a thread's time in NVIDIA's profilers; costs nothing without one.

#include <nvtx3/nvToolsExt.h>

namespace tandem::cuda {

/// From its construction to its destruction, on the calling thread. Ranges of one thread nest.
class [[nodiscard]] Range {
 public:
  /// @p text is copied, and only where a profiler is attached.
  [[nodiscard]] explicit Range(char const* text) noexcept { nvtxRangePushA(text); }

  Range(Range const&) = delete;
  Range& operator=(Range const&) = delete;

  ~Range() { nvtxRangePop(); }
};

}  // namespace tandem::cuda
