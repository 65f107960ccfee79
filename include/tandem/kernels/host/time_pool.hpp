// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The last row of each sample of a sequence, or the mean of its rows, and their gradients.
///
/// A sample's rows are those before lengths[sample]; null: all `time` of them. The others are not
/// read, and their gradient is 0.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y = x[length - 1] of each sample.
///
/// Shapes: x (B, time, C); y (B, C).
/// @pre    1 <= lengths[sample] <= time
template <class T>
TANDEM_NOINLINE void last_row_forward(Team& team, int batch, int time, int channels,
                                      std::int32_t const* lengths, T const* x, T* y) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t sample = begin; sample < end; ++sample) {
      int const rows = lengths != nullptr ? lengths[sample] : time;
      std::copy_n(x + (sample * time + rows - 1) * channels, channels, y + sample * channels);
    }
  });
}

/// dx = dy at the last row of each sample, and 0 at the others.
///
/// Shapes: dy (B, C); dx (B, time, C).
template <class T>
TANDEM_NOINLINE void last_row_gradient(Team& team, int batch, int time, int channels,
                                       std::int32_t const* lengths, T const* dy, T* dx) {
  team.parallel_for(std::int64_t{batch} * time, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const sample = row / time;
      T* const to = dx + row * channels;
      if (row % time + 1 == (lengths != nullptr ? lengths[sample] : time)) {
        std::copy_n(dy + sample * channels, channels, to);
      } else {
        std::fill_n(to, channels, T{0.0F});
      }
    }
  });
}

/// y = mean(x) over the rows of each sample.
///
/// Shapes: x (B, time, C); y (B, C).
/// Cost:   reads each row that counts once; bound by memory. The team shares out blocks of 64
///         channels of a sample.
/// Order:  runs of 64 rows, then the runs, in Real<T>; the same bits whatever the padding.
/// @pre    1 <= lengths[sample] <= time
template <class T>
TANDEM_NOINLINE void mean_over_time_forward(Team& team, int batch, int time, int channels,
                                            std::int32_t const* lengths, T const* x, T* y) {
  constexpr int block = 64;
  constexpr int run = 64;
  std::int64_t const blocks = (channels + block - 1) / block;
  team.parallel_for(batch * blocks, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      std::int64_t const sample = task / blocks;
      std::int64_t const first = task % blocks * block;
      int const rows = lengths != nullptr ? lengths[sample] : time;
      T const* const from = x + sample * time * channels;
      Real<T> const share = Real<T>{1} / static_cast<Real<T>>(rows);
      for_wide<T>(first, std::min<std::int64_t>(first + block, channels),
                  [=](std::int64_t c, auto some) {
                    Wide<T> total = wide<T>(0);
                    for (int start = 0; start < rows; start += run) {
                      Wide<T> sum = wide<T>(0);
                      for (int t = start; t < std::min(rows, start + run); ++t) {
                        sum += some.load(from + std::int64_t{t} * channels + c);
                      }
                      total += sum;
                    }
                    some.store(y + sample * channels + c, total * wide<T>(share));
                  });
    }
  });
}

/// dx = dy / rows at each row of a sample, and 0 behind its end.
///
/// Shapes: dy (B, C); dx (B, time, C).
/// Cost:   writes each row once; bound by memory.
template <class T>
TANDEM_NOINLINE void mean_over_time_gradient(Team& team, int batch, int time, int channels,
                                             std::int32_t const* lengths, T const* dy, T* dx) {
  team.parallel_for(std::int64_t{batch} * time, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const sample = row / time;
      int const rows = lengths != nullptr ? lengths[sample] : time;
      T const* const from = dy + sample * channels;
      T* const to = dx + row * channels;
      if (row % time >= rows) {
        std::fill_n(to, channels, T{0.0F});
        continue;
      }
      Wide<T> const share = wide<T>(Real<T>{1} / static_cast<Real<T>>(rows));
      for_wide<T>(0, channels, [=](std::int64_t c, auto some) {
        some.store(to + c, some.load(from + c) * share);
      });
    }
  });
}

}  // namespace tandem::host
