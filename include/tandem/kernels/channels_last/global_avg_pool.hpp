// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The mean of each channel of channels-last images, and its gradient.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

/// y = mean(x) of each channel.
///
/// Shapes: x (B, pixels, C) with x_stride >= C elements from pixel to pixel; y (B, C).
/// Cost:   reads each element once; bound by memory.
/// Order:  blocks of 64 pixels in float, the blocks in double.
/// Source: Lin, Chen, Yan, arXiv:1312.4400, section 3.2
template <class T>
TANDEM_NOINLINE void global_avg_pool_forward(Team& team, int batch, int channels,
                                             std::int64_t pixels, T const* x, std::int64_t x_stride,
                                             T* y) {
  constexpr int run = 256;  // channels whose sums stay in the first-level cache
  constexpr std::int64_t block = 64;
  std::int64_t const runs = (channels + run - 1) / run;
  team.parallel_for(batch * runs, [=](std::int64_t begin, std::int64_t end) {
    float sum[run];
    double total[run];
    for (std::int64_t task = begin; task < end; ++task) {
      int const first = static_cast<int>(task % runs) * run;
      int const count = std::min(run, channels - first);
      T const* const image = x + task / runs * pixels * x_stride + first;
      std::fill(total, total + count, 0.0);
      for (std::int64_t start = 0; start < pixels; start += block) {
        std::fill(sum, sum + count, 0.0F);
        for (std::int64_t p = start; p < std::min(pixels, start + block); ++p) {
          int c = 0;
          for (; c + lanes <= count; c += lanes) {
            store(sum + c, load(sum + c) + load(image + p * x_stride + c));
          }
          if (c < count) {
            FirstLanes const rest{count - c};
            rest.store(sum + c, rest.load(sum + c) + rest.load(image + p * x_stride + c));
          }
        }
        for (int c = 0; c < count; ++c) {
          total[c] += static_cast<double>(sum[c]);
        }
      }
      T* const to = y + task / runs * channels + first;
      for (int c = 0; c < count; ++c) {
        to[c] = static_cast<T>(static_cast<float>(total[c] / static_cast<double>(pixels)));
      }
    }
  });
}

/// dx = dy / pixels at each pixel of a channel.
///
/// Shapes: dy (B, C); dx (B, pixels, C) with dx_stride >= C elements from pixel to pixel.
/// Cost:   writes each element once; bound by memory.
/// Order:  dy times the reciprocal, in float.
template <class T>
TANDEM_NOINLINE void global_avg_pool_gradient(Team& team, int batch, int channels,
                                              std::int64_t pixels, T const* dy, T* dx,
                                              std::int64_t dx_stride) {
  Floats const share{1.0F / static_cast<float>(pixels)};
  team.parallel_for(batch * pixels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t pixel = begin; pixel < end; ++pixel) {
      T const* const from = dy + pixel / pixels * channels;
      T* const to = dx + pixel * dx_stride;
      for_vectors(channels,
                  [=](int c, auto some) { some.store(to + c, some.load(from + c) * share); });
    }
  });
}

}  // namespace tandem::host::channels_last
