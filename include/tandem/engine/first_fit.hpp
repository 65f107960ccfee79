// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// FirstFit: places buffers in one region of memory by when they live.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tandem {

namespace detail {

/// Buffers placed by first fit in the order of their births.
class FirstFit {
 public:
  // Memory from time @p birth to time @p death, both inclusive; births never decrease.
  template <class = void>  // compiled where it is called, not by every include
  std::int64_t place(std::int64_t bytes, int birth, int death) {
    std::erase_if(live_, [&](Block const& block) { return block.death < birth; });
    std::int64_t offset = 0;
    auto at = live_.begin();
    for (; at != live_.end() && at->offset - offset < bytes; ++at) {
      offset = at->offset + at->bytes;
    }
    live_.insert(at, {offset, bytes, death});
    peak_ = std::max(peak_, offset + bytes);
    return offset;
  }

  [[nodiscard]] std::int64_t peak() const { return peak_; }

 private:
  struct Block {
    std::int64_t offset;
    std::int64_t bytes;
    int death;
  };
  std::vector<Block> live_;  // by offset
  std::int64_t peak_ = 0;
};

constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace detail

}  // namespace tandem
