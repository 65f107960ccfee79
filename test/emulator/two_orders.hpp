// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a kernel leaves in memory, in two orders of its threads and blocks: what differs is a race.
///
/// Internal; all under lock().

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <cuda_runtime_api.h>

#include "memory.hpp"

namespace cuda_emulator {

/// The contents of all memory that a device's kernels may write.
class Contents {
 public:
  /// @param most  bytes; of more nothing is kept
  Contents(int device, std::size_t most);

  [[nodiscard]] bool kept() const { return !areas_.empty(); }

  /// Writes them back.
  void restore() const;

  /// "byte 4 of 128 bytes of device memory at 0x1", the first that is another one now; or "".
  [[nodiscard]] std::string difference() const;

 private:
  std::vector<Allocation> areas_;
  std::vector<std::byte> bytes_;
};

/// Which launches to run twice: the first of each kernel with so many threads, of one block and of
/// several.
class FirstLaunches {
 public:
  /// Whether this is one; it is none from then on.
  bool take(void const* function, dim3 grid, dim3 block) {
    std::uint64_t const threads = std::uint64_t{block.x} * block.y * block.z;
    bool const several = std::uint64_t{grid.x} * grid.y * grid.z > 1;
    return threads * (several ? 2 : 1) > 1 && seen_.emplace(function, threads, several).second;
  }

 private:
  std::set<std::tuple<void const*, std::uint64_t, bool>> seen_;
};

}  // namespace cuda_emulator
