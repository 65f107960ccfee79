// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TableRows and WordRange: which rows of a table of words a rank has, where others may have the
/// others.

#include <cstdint>

#include <tandem/core/config.hpp>

namespace tandem {

/// The rows of a table that stand here, where others may have the others.
struct TableRows {
  int first = 0;
  int count = 0;

  /// Where a row stands; count: not here.
  [[nodiscard]] TANDEM_HOST_DEVICE int at(std::int32_t index) const {
    return index >= first && index < first + count ? index - first : count;
  }
};

/// Of the words that a rank has: columns [0, count) of `stride` are those from `first` on.
struct WordRange {
  int first = 0;
  int count = 0;
  int stride = 0;  ///< logits of a row; those behind `count` are nobody's

  /// Where a target stands; count: elsewhere, or nowhere.
  [[nodiscard]] TANDEM_HOST_DEVICE int column(std::int32_t target) const {
    return TableRows{first, count}.at(target);
  }
};

}  // namespace tandem
