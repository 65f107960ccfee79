// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CastQueue: gradients in the type of products that wait to be written in that of parameters, so
/// that one kernel does it for many.

#include <cstddef>
#include <cstdint>

namespace tandem::cuda {

/// What waits, and memory for it. Whoever reads the gradients, or needs room, has them written
/// first: see kernels/cuda/cast_many.cuh.
struct CastQueue {
  static constexpr int most = 64;
  static constexpr std::int64_t alignment = 256;

  struct Entry {
    void const* from;
    void* to;
    std::int64_t count;  ///< elements
  };

  /// Of @p count numbers of @p size bytes.
  static constexpr std::int64_t bytes_for(std::int64_t count, std::size_t size) {
    std::int64_t const bytes = count * static_cast<std::int64_t>(size);
    return (bytes + alignment - 1) / alignment * alignment;
  }

  /// Whether so many more entries fit, of @p wanted bytes together, which all add or all overwrite.
  [[nodiscard]] bool fits(int more, std::int64_t wanted, bool add) const {
    return entries + more <= most && used + wanted <= bytes && (entries == 0 || adds == add);
  }
  /// @pre fits
  [[nodiscard]] std::byte* take(std::int64_t wanted) {
    std::byte* const place = memory + used;
    used += wanted;
    return place;
  }
  /// @pre fits
  void put(void const* from, void* to, std::int64_t count, bool add) {
    entry[entries++] = {from, to, count};
    adds = add;
  }
  void clear() {
    entries = 0;
    used = 0;
  }

  std::byte* memory = nullptr;  ///< not owned; null: nothing can wait
  std::int64_t bytes = 0;
  std::int64_t used = 0;
  bool adds = false;  ///< to what is there
  int entries = 0;
  Entry entry[most] = {};
};

}  // namespace tandem::cuda
