// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TimeRows: where the rows of a step's sequences lie, and which of them count.

#include <cstdint>

#include <tandem/core/config.hpp>

namespace tandem {

/// Rows (B, time, C), of each sample the first lengths[sample]; null: all of them.
/// @pre 1 <= lengths[sample] <= time
struct TimeRows {
  std::int64_t batch = 0;
  int time = 0;
  int channels = 1;
  std::int32_t const* lengths = nullptr;

  /// Of all samples, those that do not count, too.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t all() const { return batch * time; }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t sample(std::int64_t row) const {
    return row / time;
  }
  /// How many of a sample's rows count.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int count(std::int64_t sample) const {
    return lengths != nullptr ? lengths[sample] : time;
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr bool counts(std::int64_t row) const {
    return row % time < count(sample(row));
  }
  /// The last row of a sample that counts, among those of all.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t last(std::int64_t sample) const {
    return sample * time + count(sample) - 1;
  }
};

/// What the gradient of a sample's one row is multiplied by at a row of the sample.
struct LastRowShare {
  template <class Real>
  [[nodiscard]] TANDEM_HOST_DEVICE static constexpr Real at(TimeRows const& rows,
                                                            std::int64_t row) {
    return row == rows.last(rows.sample(row)) ? Real{1} : Real{0};
  }
};
struct MeanShare {
  template <class Real>
  [[nodiscard]] TANDEM_HOST_DEVICE static constexpr Real of(int count) {
    return Real{1} / static_cast<Real>(count);
  }
  template <class Real>
  [[nodiscard]] TANDEM_HOST_DEVICE static constexpr Real at(TimeRows const& rows,
                                                            std::int64_t row) {
    return rows.counts(row) ? of<Real>(rows.count(rows.sample(row))) : Real{0};
  }
};

}  // namespace tandem
