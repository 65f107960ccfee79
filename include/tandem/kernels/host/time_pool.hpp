// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The last row of each sample of a sequence, or the mean of its rows, and their gradient.
///
/// Rows that do not count are not read, and their gradient is 0.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/time_pool.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y = the last row of each sample that counts.
///
/// Shapes: x (B, time, C); y (B, C).
template <class T>
TANDEM_NOINLINE void last_row_forward(Team& team, TimeRows const& rows, T const* x, T* y) {
  team.parallel_for(rows.batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t sample = begin; sample < end; ++sample) {
      std::copy_n(x + rows.last(sample) * rows.channels, rows.channels, y + sample * rows.channels);
    }
  });
}

/// y = mean(x) over the rows of each sample.
///
/// Shapes: x (B, time, C); y (B, C).
/// Cost:   reads each row that counts once; bound by memory. The team shares out blocks of 64
///         channels of a sample.
/// Order:  runs of 64 rows, then the runs, in Real<T>; the same bits whatever the padding.
template <class T>
TANDEM_NOINLINE void mean_over_time_forward(Team& team, TimeRows const& rows, T const* x, T* y) {
  constexpr int block = 64;
  constexpr int run = 64;
  int const channels = rows.channels;
  std::int64_t const blocks = (channels + block - 1) / block;
  team.parallel_for(rows.batch * blocks, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      std::int64_t const sample = task / blocks;
      std::int64_t const first = task % blocks * block;
      int const count = rows.count(sample);
      T const* const from = x + sample * rows.time * channels;
      auto const share = MeanShare::of<Real<T>>(count);
      for_wide<T>(first, std::min<std::int64_t>(first + block, channels),
                  [=](std::int64_t c, auto some) {
                    Wide<T> total = wide<T>(0);
                    for (int start = 0; start < count; start += run) {
                      Wide<T> sum = wide<T>(0);
                      for (int t = start; t < std::min(count, start + run); ++t) {
                        sum += some.load(from + std::int64_t{t} * channels + c);
                      }
                      total += sum;
                    }
                    some.store(y + sample * channels + c, total * wide<T>(share));
                  });
    }
  });
}

/// dx = Share dy at each row of a sample: LastRowShare or MeanShare.
///
/// Shapes: dy (B, C); dx (B, time, C).
/// Cost:   writes each row once; bound by memory.
template <class Share, class T>
TANDEM_NOINLINE void time_pool_gradient(Team& team, TimeRows const& rows, T const* dy, T* dx) {
  team.parallel_for(rows.all(), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T const* const from = dy + rows.sample(row) * rows.channels;
      T* const to = dx + row * rows.channels;
      auto const share = Share::template at<Real<T>>(rows, row);
      if (share == Real<T>{0}) {
        std::fill_n(to, rows.channels, T{0.0F});
        continue;
      }
      for_wide<T>(0, rows.channels, [=](std::int64_t c, auto some) {
        some.store(to + c, some.load(from + c) * wide<T>(share));
      });
    }
  });
}

}  // namespace tandem::host
