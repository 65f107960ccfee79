// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LargestCell: the running maximum under a window, and where it stands.

#include <cstdint>
#include <limits>

#include <tandem/core/config.hpp>

namespace tandem {

/// Starts as minus infinity at cell -1. Of equals the first offered is kept, a NaN always wins.
/// Source: as PyTorch's max_pool2d
template <class T>
struct LargestCell {
  T best = -std::numeric_limits<T>::infinity();
  std::int32_t where = -1;

  TANDEM_HOST_DEVICE constexpr void offer(T value, std::int32_t cell) {
    if (value > best || value != value || where < 0) {  // value != value: a NaN
      best = value;
      where = cell;
    }
  }
};

}  // namespace tandem
