// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A bias of each map of images, added to them; and its gradient.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/lanes.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y += bias.
///
/// Shapes: y (B, channels, pixels), bias (channels).
template <class T>
TANDEM_NOINLINE void add_map_bias(Team& team, int batch, int channels, std::int64_t pixels,
                                  T const* bias, T* y) {
  team.parallel_for(std::int64_t{batch} * channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      T const own = bias[map % channels];
      for (std::int64_t i = map * pixels; i < (map + 1) * pixels; ++i) {
        y[i] += own;
      }
    }
  });
}

/// dbias = [+=] the sum of dy over batch and pixels.
///
/// Order: each map in 16 lanes in T, then the samples in order in double.
template <class T>
TANDEM_NOINLINE void map_bias_gradient(Team& team, int batch, int channels, std::int64_t pixels,
                                       T const* dy, T* dbias, bool accumulate) {
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const total = static_cast<T>(detail::channel_sum<T>(batch, channels, pixels, c,
                                                            [=](std::int64_t i) { return dy[i]; }));
      dbias[c] = accumulate ? dbias[c] + total : total;
    }
  });
}

}  // namespace tandem::host
