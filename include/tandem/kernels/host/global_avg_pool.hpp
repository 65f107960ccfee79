// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The mean of each map, and its gradient.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/lanes.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y = mean(x) of each map.
///
/// Shapes: x (B, C, pixels); y (B, C).
/// Cost:   reads each element once; bound by memory.
/// Order:  the pixels of a map in 16 lanes, in T.
/// Source: Lin, Chen, Yan, arXiv:1312.4400, section 3.2
template <class T>
TANDEM_NOINLINE void global_avg_pool_forward(Team& team, int batch, int channels,
                                             std::int64_t pixels, T const* x, T* y) {
  std::int64_t const maps = std::int64_t{batch} * channels;
  team.parallel_for(maps, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      T const* const from = x + map * pixels;
      T const total = detail::lane_sum<T>(pixels, [=](std::int64_t i) { return from[i]; });
      y[map] = total / static_cast<T>(pixels);
    }
  });
}

/// dx = dy / pixels at each pixel of a map.
///
/// Shapes: dy (B, C); dx (B, C, pixels).
/// Cost:   writes each element once; bound by memory.
template <class T>
TANDEM_NOINLINE void global_avg_pool_gradient(Team& team, int batch, int channels,
                                              std::int64_t pixels, T const* dy, T* dx) {
  std::int64_t const maps = std::int64_t{batch} * channels;
  team.parallel_for(maps, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      std::fill(dx + map * pixels, dx + (map + 1) * pixels, dy[map] / static_cast<T>(pixels));
    }
  });
}

}  // namespace tandem::host
