// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pointers: up to 64 addresses of device memory, passed to a kernel by value.

#include <cstdint>

#include <tandem/core/contract.hpp>

namespace tandem::cuda {

inline constexpr int most_pointers = 64;

/// The first `count` are meant.
template <class T>
struct Pointers {
  T* at[most_pointers] = {};
  int count = 0;

  /// Whether each, moved by @p offset elements, is a multiple of 16 bytes.
  [[nodiscard]] bool aligned(std::int64_t offset = 0) const {
    for (int i = 0; i < count; ++i) {
      if (reinterpret_cast<std::uintptr_t>(at[i] + offset) % 16 != 0) {
        return false;
      }
    }
    return true;
  }
};

/// The @p count addresses that stand at @p from, in host memory.
/// @throws ContractError  @p count is not in [0, 64]
template <class T>
[[nodiscard]] Pointers<T> pointers(T* const* from, int count) {
  expects(count >= 0 && count <= most_pointers, "cuda::pointers: give at most 64 addresses");
  Pointers<T> result;
  for (result.count = 0; result.count < count; ++result.count) {
    result.at[result.count] = from[result.count];
  }
  return result;
}

}  // namespace tandem::cuda
