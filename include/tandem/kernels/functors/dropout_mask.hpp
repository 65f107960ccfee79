// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The mask of a dropout, never stored: it is drawn again, from the place of each element.
///
/// The mask depends on the seed, the step, the layer, the sample's index in the global batch and
/// the element only, so that it is the same on every rank and backend, under every strategy and in
/// every microbatch.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/philox.hpp>

namespace tandem {

/// Where a dropout mask is drawn. `first_sample` is the global index of the batch's first sample.
struct DropoutPlace {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;
  std::uint32_t first_sample = 0;
};

/// The counter of philox() for elements 4 q … 4 q + 3 of a sample: step · 2³² + layer, and sample ·
/// 2³² + q, so that the next four elements have the next one.
struct DropoutCounter {
  std::uint64_t low;
  std::uint64_t high;
};

TANDEM_HOST_DEVICE constexpr DropoutCounter dropout_counter(DropoutPlace const& place,
                                                            std::int64_t sample, std::int64_t q) {
  std::uint64_t const row = static_cast<std::uint64_t>(sample) + place.first_sample;
  return {(static_cast<std::uint64_t>(place.step) << 32) | place.layer,
          (row << 32) | static_cast<std::uint64_t>(q)};
}

/// The four words for elements 4 q … 4 q + 3 of a sample, in order. An image's elements are counted
/// in the order (C, H, W), however a backend stores them. The key is (seed, RandomUse::dropout).
TANDEM_HOST_DEVICE constexpr Random4 dropout_words(DropoutPlace const& place, std::int64_t sample,
                                                   std::int64_t q) {
  DropoutCounter const counter = dropout_counter(place, sample, q);
  return philox(place.seed, RandomUse::dropout, counter.low, counter.high);
}

/// Which rows stand in x and y: so many from one of a batch on, whose samples have rows each.
struct DropoutRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t of_sample = 1;

  /// Whose row @p row of these is, and which of that one's.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t sample(std::int64_t row) const {
    return (first + row) / of_sample;
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t in_sample(std::int64_t row) const {
    return (first + row) % of_sample;
  }
};

/// Which of a row's columns stand in x and y, where these have a slice of each row: runs of them;
/// and which rows of a sample.
struct DropoutColumns {
  static constexpr int most = 3;
  int own = 0;    ///< columns that are there
  int whole = 0;  ///< of a whole row, which elements are counted by
  int runs = 0;
  int at[most] = {};  ///< of a run: where it stands in a whole row
  int count[most] = {};
  std::int64_t first_row = 0;

  /// All columns of rows from @p first on.
  static constexpr DropoutColumns of_rows(int columns, std::int64_t first) {
    return {.own = columns, .whole = columns, .runs = 1, .count = {columns}, .first_row = first};
  }
  /// Where the row's own column @p c stands in a whole row.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int place(int c) const {
    int run = 0;
    while (run + 1 < runs && c >= count[run]) {
      c -= count[run++];
    }
    return at[run] + c;
  }
  /// Whether each run begins, and ends, at a multiple of @p n, in a row of its own and in a whole
  /// one.
  [[nodiscard]] constexpr bool in_steps_of(int n) const {
    bool all = whole % n == 0;
    for (int run = 0; run < runs; ++run) {
      all = all && at[run] % n == 0 && count[run] % n == 0;
    }
    return all;
  }
};

/// x · scale where an element with this random word is kept, else 0.
template <class T>
TANDEM_HOST_DEVICE constexpr T dropped(std::uint32_t word, float rate, T scale, T x) {
  return uniform(word) >= rate ? x * scale : T{0};
}

/// What the kept elements are multiplied by: 1 / (1 - rate).
template <class T>
TANDEM_HOST_DEVICE constexpr T dropout_scale(float rate) {
  return T{1} / (T{1} - static_cast<T>(rate));
}

}  // namespace tandem
