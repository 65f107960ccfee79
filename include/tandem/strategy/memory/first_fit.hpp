// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// FirstFit: places buffers in one region of memory by when they live. At compile time, too.

#include <algorithm>
#include <cstdint>

#include <tandem/core/scratch.hpp>

namespace tandem {

namespace detail {

/// Buffers placed by first fit in the order of their births.
class FirstFit {
 public:
  /// @param most  of the buffers that it will place
  constexpr explicit FirstFit(int most) : live_{most} {}

  // Memory from time @p birth to time @p death, both inclusive; births never decrease.
  constexpr std::int64_t place(std::int64_t bytes, int birth, int death) {
    Block* const live = live_.data();
    if (earliest_death_ < birth) {
      bury(live, birth);
    }
    std::int64_t offset = has_gaps_ ? 0 : peak_;
    int at = has_gaps_ ? 0 : count_;
    for (; at < count_ && live[at].offset - offset < bytes; ++at) {
      offset = live[at].offset + live[at].bytes;
    }
    for (int i = count_++; i > at; --i) {
      live[i] = live[i - 1];
    }
    live[at] = {offset, bytes, death};
    earliest_death_ = count_ > 1 ? std::min(earliest_death_, death) : death;
    peak_ = std::max(peak_, offset + bytes);
    return offset;
  }

  [[nodiscard]] constexpr std::int64_t peak() const { return peak_; }

 private:
  struct Block {
    std::int64_t offset;
    std::int64_t bytes;
    int death;
  };

  constexpr void bury(Block* live, int birth) {
    int const count = count_;
    count_ = 0;
    has_gaps_ = true;
    for (int i = 0; i < count; ++i) {
      if (live[i].death >= birth) {
        earliest_death_ = count_ > 0 ? std::min(earliest_death_, live[i].death) : live[i].death;
        live[count_++] = live[i];
      }
    }
  }

  Scratch<Block> live_;  // by offset
  int count_ = 0;
  int earliest_death_ = 0;
  bool has_gaps_ = false;  // some buffer has died
  std::int64_t peak_ = 0;
};

}  // namespace detail

}  // namespace tandem
