// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sums of columns over many rows: how the rows are split, and where the sums stand.
///
/// A row is a pixel, a column a channel. The rows are cut into parts, a function of their number
/// only, which threads share out; within a part blocks are summed in float and added in double.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

/// Rows that are summed in float before they are added in double.
inline constexpr std::int64_t block_rows = 256;

/// Bytes of a stream that are asked for ahead of their use. Measured at 25 MB on a Zen 5: sums of
/// all channels take 1.4 ms without, 1.07 with 4096, 0.84 with 8192 or 16384.
inline constexpr std::int64_t ahead_bytes = 8192;

/// The channel to hint at for the vector that for_vectors gives at @p c. The first one; but where
/// channels are covered again, the last: it may stand in a line of memory that no other vector
/// begins in (32768 slices of 24 channels: 1.3 ms without, 0.5 so).
constexpr int hinted_channel(int c) { return c % lanes == 0 ? c : c + lanes - 1; }

/// Rows that hold so many bytes.
template <class T>
constexpr std::int64_t rows_ahead(int channels) {
  return 1 + ahead_bytes / (channels * static_cast<std::int64_t>(sizeof(T)));
}

/// Where the sums of the channels from @p c on stand, @p c from for_vectors: a place of its own
/// also for the vector that covers some channels again.
constexpr std::int64_t slot_of_vector(int c) { return (c + lanes - 1) / lanes * lanes; }

/// At most 64 parts of at least block_rows rows.
struct RowParts {
  std::int64_t rows;
  std::int64_t each;   ///< of a part; the last may have fewer
  std::int64_t count;  ///< of parts

  explicit constexpr RowParts(std::int64_t all)
      : rows{all}, each{std::max(block_rows, (all + 63) / 64)}, count{(all + each - 1) / each} {}
};

/// Scratch of a pass over rows: constants of the channels, and three sums in float and two in
/// double for each part. Sums have 16 columns for each call of for_vectors.
class RowScratch {
 public:
  static constexpr int sums = 3;

  RowScratch(std::byte* memory, std::int64_t rows, int channels)
      : slots_{slots_of(channels)},
        totals_{reinterpret_cast<double*>(memory)},
        sums_{reinterpret_cast<float*>(totals_ + RowParts{rows}.count * 2 * slots_)},
        constants_{sums_ + RowParts{rows}.count * sums * slots_} {}

  /// For at most @p rows rows.
  static constexpr std::int64_t bytes(std::int64_t rows, int channels) {
    std::int64_t const parts = RowParts{rows}.count;
    return slots_of(channels) *
           (parts * (2 * std::int64_t{sizeof(double)} + sums * std::int64_t{sizeof(float)}) +
            4 * std::int64_t{sizeof(float)});
  }

  [[nodiscard]] std::int64_t slots() const { return slots_; }
  [[nodiscard]] double* total(std::int64_t part, int which) const {
    return totals_ + (part * 2 + which) * slots_;
  }
  /// `sums` arrays of slots() each, behind one another.
  [[nodiscard]] float* sum(std::int64_t part) const { return sums_ + part * sums * slots_; }
  /// One of four arrays.
  [[nodiscard]] float* constant(int which) const { return constants_ + which * slots_; }

  /// Where the sum of channel @p c stands: see slot_of_vector.
  [[nodiscard]] static constexpr std::int64_t slot(int c, int channels) {
    int const whole = channels - channels % lanes;
    return c < whole || channels < lanes ? c : whole + c - (channels - lanes);
  }

 private:
  static constexpr std::int64_t slots_of(int channels) {
    return (channels + lanes - 1) / lanes * std::int64_t{lanes};
  }

  std::int64_t slots_;
  double* totals_;
  float* sums_;
  float* constants_;
};

/// For each block of rows: block(first, count, total0, sum) makes sums in float, fold(count,
/// before, sum, total0, total1) adds them to its part's totals, in which `before` rows already are;
/// where none are, block gets no total.
///
/// Order: blocks in order within a part; the parts are left apart.
template <class Block, class Fold>
void row_sums(Team& team, std::int64_t rows, RowScratch const& scratch, Block const& block,
              Fold const& fold) {
  RowParts const parts{rows};
  team.parallel_for(parts.count, [&](std::int64_t begin, std::int64_t end) {
    float* const sum = scratch.sum(begin);  // one for all parts of this thread: it stays in cache
    for (std::int64_t part = begin; part < end; ++part) {
      std::int64_t const first = part * parts.each;
      std::int64_t const last = std::min(rows, first + parts.each);
      for (std::int64_t row = first; row < last; row += block_rows) {
        std::int64_t const count = std::min(block_rows, last - row);
        double* const total = scratch.total(part, 0);
        block(row, count, row > first ? total : nullptr, sum);
        fold(count, row - first, sum, total, scratch.total(part, 1));
      }
    }
  });
}

}  // namespace tandem::host::channels_last
