// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The shortcut without parameters of a ResNet ("option A"): every s-th pixel, new channels zero.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/functors/subsample_geometry.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y[c] = x[c - first] at [::s, ::s]; the channels before and behind are zero.
///
/// Shapes: x (B, in_channels, in); y (B, out_channels, out).
/// Cost:   writes each element of y once; bound by memory.
/// @pre    in_channels <= out_channels
/// Source: He, Zhang, Ren, Sun, CVPR 2016, section 3.3, option (A)
template <class T>
TANDEM_NOINLINE void subsample_forward(Team& team, SubsampleGeometry const& g, int batch,
                                       T const* x, T* y) {
  Extent2d const out = g.out();
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{out.height} * out.width;
  team.parallel_for(
      std::int64_t{batch} * g.out_channels, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t map = begin; map < end; ++map) {
          std::int64_t const c = map % g.out_channels - g.first();
          T* to = y + map * out_pixels;
          if (c < 0 || c >= g.in_channels) {
            std::fill(to, to + out_pixels, T{0});
            continue;
          }
          T const* const from = x + (map / g.out_channels * g.in_channels + c) * in_pixels;
          for (int h = 0; h < out.height; ++h) {
            T const* const row = from + std::int64_t{h} * g.stride * g.in.width;
            for (int w = 0; w < out.width; ++w) {
              *to++ = row[std::int64_t{w} * g.stride];
            }
          }
        }
      });
}

/// The gradient of subsample_forward: dx is dy at the pixels that were read, else 0.
///
/// Shapes: dy (B, out_channels, out); dx (B, in_channels, in).
/// Cost:   writes each element of dx once; bound by memory.
/// @pre    in_channels <= out_channels
template <class T>
TANDEM_NOINLINE void subsample_gradient(Team& team, SubsampleGeometry const& g, int batch,
                                        T const* dy, T* dx) {
  Extent2d const out = g.out();
  std::int64_t const in_pixels = std::int64_t{g.in.height} * g.in.width;
  std::int64_t const out_pixels = std::int64_t{out.height} * out.width;
  team.parallel_for(std::int64_t{batch} * g.in_channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t map = begin; map < end; ++map) {
      std::int64_t const c = map % g.in_channels + g.first();
      T const* from = dy + (map / g.in_channels * g.out_channels + c) * out_pixels;
      T* const to = dx + map * in_pixels;
      std::fill(to, to + in_pixels, T{0});
      for (int h = 0; h < out.height; ++h) {
        T* const row = to + std::int64_t{h} * g.stride * g.in.width;
        for (int w = 0; w < out.width; ++w) {
          row[std::int64_t{w} * g.stride] = *from++;
        }
      }
    }
  });
}

}  // namespace tandem::host
