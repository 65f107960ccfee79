// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The shortcut without parameters of a ResNet ("option A"), of channels-last images: every s-th
/// pixel, new channels zero.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/functors/subsample_geometry.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

/// y[c] = x[c - first] at [::s, ::s]; the channels before and behind are zero.
///
/// Shapes: x (B, in, in_channels); y (B, out, out_channels).
/// Cost:   writes each element of y once; bound by memory.
/// @pre    in_channels <= out_channels
/// Source: He, Zhang, Ren, Sun, CVPR 2016, section 3.3, option (A)
template <class T>
TANDEM_NOINLINE void subsample_forward(Team& team, SubsampleGeometry const& g, int batch,
                                       T const* x, T* y) {
  Extent2d const out = g.out();
  team.parallel_for(std::int64_t{batch} * out.height, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const in_row =
          row / out.height * g.in.height + row % out.height * std::int64_t{g.stride};
      for (std::int64_t w = 0; w < out.width; ++w) {
        T const* const from = x + (in_row * g.in.width + w * g.stride) * g.in_channels;
        T* const to = y + (row * out.width + w) * g.out_channels;
        T* const middle = to + g.first();
        std::fill(to, middle, T{});
        std::copy(from, from + g.in_channels, middle);
        std::fill(middle + g.in_channels, to + g.out_channels, T{});
      }
    }
  });
}

/// The gradient of subsample_forward: dx is dy at the pixels that were read, else 0.
///
/// Shapes: dy (B, out, out_channels); dx (B, in, in_channels), overwritten.
/// Cost:   writes each element of dx once; bound by memory.
/// @pre    in_channels <= out_channels
template <class T>
TANDEM_NOINLINE void subsample_gradient(Team& team, SubsampleGeometry const& g, int batch,
                                        T const* dy, T* dx) {
  Extent2d const out = g.out();
  team.parallel_for(std::int64_t{batch} * g.in.height, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const h = row % g.in.height;
      std::int64_t const out_row = row / g.in.height * out.height + h / g.stride;
      for (std::int64_t w = 0; w < g.in.width; ++w) {
        T* const to = dx + (row * g.in.width + w) * g.in_channels;
        if (h % g.stride != 0 || w % g.stride != 0) {
          std::fill(to, to + g.in_channels, T{});
          continue;
        }
        T const* const from =
            dy + (out_row * out.width + w / g.stride) * g.out_channels + g.first();
        std::copy(from, from + g.in_channels, to);
      }
    }
  });
}

}  // namespace tandem::host::channels_last
