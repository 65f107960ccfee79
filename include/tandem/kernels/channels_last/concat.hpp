// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Concatenation along the channels of channels-last images, and its way back.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

/// Writes the parts side by side into each pixel.
///
/// Shapes: x[i] (pixels, channels[i]); y (pixels, sum of channels).
/// Cost:   reads and writes each element once; bound by memory.
template <class T>
TANDEM_NOINLINE void concat_forward(Team& team, std::int64_t pixels, int parts, int const* channels,
                                    T const* const* x, T* y) {
  team.parallel_for(pixels, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t whole = 0;
    for (int i = 0; i < parts; ++i) {
      whole += channels[i];
    }
    for (std::int64_t pixel = begin; pixel < end; ++pixel) {
      T* to = y + pixel * whole;
      for (int i = 0; i < parts; to += channels[i], ++i) {
        T const* const from = x[i] + pixel * channels[i];
        std::copy(from, from + channels[i], to);
      }
    }
  });
}

/// Reads each part's gradient out of its slice of the pixels.
///
/// Shapes: dy (pixels, sum of channels); dx[i] (pixels, channels[i]), or null where none is wanted.
/// Cost:   reads and writes each element once; bound by memory.
template <class T>
TANDEM_NOINLINE void concat_gradient(Team& team, std::int64_t pixels, int parts,
                                     int const* channels, T const* dy, T* const* dx) {
  team.parallel_for(pixels, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t whole = 0;
    for (int i = 0; i < parts; ++i) {
      whole += channels[i];
    }
    for (std::int64_t pixel = begin; pixel < end; ++pixel) {
      T const* from = dy + pixel * whole;
      for (int i = 0; i < parts; from += channels[i], ++i) {
        if (dx[i] != nullptr) {
          std::copy(from, from + channels[i], dx[i] + pixel * channels[i]);
        }
      }
    }
  });
}

}  // namespace tandem::host::channels_last
