// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RecurrentRows: which rows a recurrent layer computes, in which order its samples stand, and how
/// numbers come from the one order to the other.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/recurrent.hpp>
#include <tandem/kernels/host/recurrent.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Of samples with lengths the longest stand first, so that those which still go on are the first
/// of each time, and padding costs little: of a time so many are computed, rounded up to a multiple
/// of four or of a sixteenth of the batch, and products of all rows have theirs rounded up to one
/// of some 32 sizes. So steps of whatever lengths have few sizes, which oneDNN wants compiled; what
/// is rounded up is 0.
class RecurrentRows {
 public:
  TANDEM_ONCE RecurrentRows(std::int64_t batch, std::int64_t longest);

  /// Of a pass: all rows, in order; or, of @p lengths, the longest samples first.
  TANDEM_ONCE void set(std::int64_t batch, std::int64_t time, std::int32_t const* lengths,
                       bool sorts);

  [[nodiscard]] RowsByTime times() const { return {start_.data()}; }
  [[nodiscard]] std::int64_t start(std::int64_t t) const {
    return start_[static_cast<std::size_t>(t)];
  }
  [[nodiscard]] std::int64_t samples(std::int64_t t) const { return start(t + 1) - start(t); }
  /// What one product over @p count times from @p first on has.
  [[nodiscard]] std::int64_t multiplied(std::int64_t first, std::int64_t count) const {
    std::int64_t const rows = start(first + count) - start(first);
    return sorted_ ? std::min(batch_ * count, rounded(rows, many_)) : rows;
  }
  /// Behind all that products of rows up to time @p time, or of those but the first time's, have.
  [[nodiscard]] std::int64_t end(std::int64_t time) const {
    return time > 0 ? std::max(multiplied(0, time), start(1) + multiplied(1, time - 1)) : 0;
  }
  [[nodiscard]] bool sorted() const { return sorted_; }
  /// Null: samples stand as they are.
  [[nodiscard]] std::int32_t const* order() const { return sorted_ ? order_.data() : nullptr; }
  [[nodiscard]] RecurrentRow row(std::int64_t hidden, std::int64_t t) const {
    return {samples(t), hidden, static_cast<int>(t), sorted_ ? lengths_.data() : given_};
  }

  /// Rows of samples as the network has them, (B, T, stride); @p y is the first that is meant, of
  /// sample 0.
  template <class E>
  [[nodiscard]] SampleRows<E> outside(E* y, std::int64_t stride) const {
    return {y, time_, stride, order()};
  }
  /// Rows of (B, T, n) that are not computed: 0.
  template <class E>
  void clear_others(E* of, std::int64_t n) const {
    if (sorted_) {
      clear_other_rows<E>(times(), batch_, time_, n, outside(of, n));
    }
  }
  /// Of x (B, T, n) the rows of @p count times from @p first on, and 0 behind them for one product.
  template <class E>
  void by_time(Team& team, std::int64_t first, std::int64_t count, std::int64_t n, E const* x,
               E* to) const {
    rows_to_times<E>(team, times(), first, count, n, outside(x + first * n, n), to);
    std::int64_t const rows = start(first + count) - start(first);
    std::fill(to + rows * n, to + multiplied(first, count) * n, E{});
  }
  /// Of what each time has in a block of its own, block(t), without gaps, and 0 behind it.
  template <class E, class Block>
  void compact(Team& team, std::int64_t n, E* to, Block const& block) const {
    team.parallel_for(time_, [=, this, &block](std::int64_t begin, std::int64_t last) {
      for (std::int64_t t = begin; t < last; ++t) {
        std::copy_n(block(t), samples(t) * n, to + start(t) * n);
      }
    });
    std::fill(to + start(time_) * n, to + end(time_) * n, E{});
  }

 private:
  static std::int64_t rounded(std::int64_t n, std::int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
  }
  // By counting; samples of a length stay in order.
  TANDEM_ONCE void sort(std::int64_t time);

  std::int64_t few_;
  std::int64_t many_;
  std::int64_t batch_ = 0;
  std::int64_t time_ = 0;
  bool sorted_ = false;
  std::int32_t const* given_ = nullptr;
  std::vector<std::int64_t> start_;
  std::vector<std::int32_t> order_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> samples_of_;  // a length less than the longest
};

}  // namespace tandem::host

#if TANDEM_BODIES

namespace tandem::host {

TANDEM_ONCE RecurrentRows::RecurrentRows(std::int64_t batch, std::int64_t longest)
    : few_{std::max<std::int64_t>(4, (batch + 15) / 16)},
      many_{std::max<std::int64_t>(64, batch * longest / 32)},
      start_(static_cast<std::size_t>(longest) + 1),
      order_(static_cast<std::size_t>(batch)),
      lengths_(static_cast<std::size_t>(batch)),
      samples_of_(static_cast<std::size_t>(longest) + 1) {}

TANDEM_ONCE void RecurrentRows::set(std::int64_t batch, std::int64_t time,
                                    std::int32_t const* lengths, bool sorts) {
  batch_ = batch;
  time_ = time;
  sorted_ = sorts && lengths != nullptr;
  given_ = lengths;
  if (sorted_) {
    sort(time);
  }
  start_[0] = 0;
  std::int64_t samples = batch;
  for (std::int64_t t = 0; t < time; ++t) {
    if (sorted_) {
      while (samples > 0 && lengths_[static_cast<std::size_t>(samples - 1)] <= t) {
        --samples;
      }
    }
    start_[static_cast<std::size_t>(t) + 1] =
        start_[static_cast<std::size_t>(t)] + std::min(batch, rounded(samples, few_));
  }
}

TANDEM_ONCE void RecurrentRows::sort(std::int64_t time) {
  std::fill(samples_of_.begin(), samples_of_.end(), 0);
  auto const place = [=, this](std::int64_t b) -> std::int32_t& {
    auto const length = std::clamp<std::int64_t>(given_[b], 0, time);
    return samples_of_[static_cast<std::size_t>(time - length)];
  };
  for (std::int64_t b = 0; b < batch_; ++b) {
    ++place(b);
  }
  std::int32_t before = 0;
  for (std::int32_t& count : samples_of_) {
    std::int32_t const here = count;
    count = before;
    before += here;
  }
  for (std::int64_t b = 0; b < batch_; ++b) {
    auto const at = static_cast<std::size_t>(place(b)++);
    order_[at] = static_cast<std::int32_t>(b);
    lengths_[at] = given_[b];
  }
}

}  // namespace tandem::host

#endif
