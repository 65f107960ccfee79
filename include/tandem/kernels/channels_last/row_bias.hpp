// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A bias of each channel, added to every pixel.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

/// y += bias, in float; rounded once.
///
/// Shapes: y (rows, channels), bias (channels).
template <class T>
TANDEM_NOINLINE void add_row_bias(Team& team, std::int64_t rows, int channels, float const* bias,
                                  T* y) {
  team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* const to = y + row * channels;
      int c = 0;
      for (; c + lanes <= channels; c += lanes) {
        store(to + c, load(to + c) + load(bias + c));
      }
      if (c < channels) {
        FirstLanes const rest{channels - c};
        rest.store(to + c, rest.load(to + c) + rest.load(bias + c));
      }
    }
  });
}

}  // namespace tandem::host::channels_last
