// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The gradients of a convolution to its weights and its bias.
///
/// A product of dy and the transposed matrix of patches, whose k runs over all positions of the
/// batch. The members of a Team divide the weights among them, never the positions.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/host/lanes.hpp>
#include <tandem/kernels/host/panels.hpp>
#include <tandem/kernels/host/patches.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

namespace detail {

/// Packs positions [k, k + depth) of @p count channels as a left panel.
///
/// @p y is the first of these channels in sample 0; the samples stand @p sample_stride apart.
template <class T>
void pack_positions(std::int64_t pixels, T const* y, std::int64_t sample_stride, std::int64_t count,
                    std::int64_t k, std::int64_t depth, T* panel) {
  for (std::int64_t begin = 0; begin < depth;) {
    std::int64_t const pixel = (k + begin) % pixels;
    std::int64_t const run = std::min(depth - begin, pixels - pixel);
    pack_panel<tile_rows>(count, run, y + (k + begin) / pixels * sample_stride + pixel, pixels, 1,
                          panel + begin * tile_rows);
    begin += run;
  }
}

}  // namespace detail

/// dweight = [+=] the gradient to the weights, dbias = [+=] the sum of dy over batch and positions.
///
/// Shapes: x (B, in_channels, in), dy (B, out_channels, out); dweight (out_channels,
///         in_channels / groups, kernel), dbias (out_channels) or null; scratch
///         (convolution_scratch).
/// Cost:   B g.macs() multiply-accumulates.
/// Order:  for each weight the positions (sample, row, column) in blocks of 256, each summed in
///         order, the blocks added to the old value (accumulate) or to each other in order. dbias
///         adds each map in 16 lanes in T, then the samples in order in double.
template <class T>
TANDEM_NOINLINE void convolution_weight_gradient(Team& team, ConvolutionGeometry const& geometry,
                                                 int batch, T const* x, T const* dy, T* dweight,
                                                 T* dbias, bool accumulate, T* scratch) {
  ConvolutionGeometry const g = detail::flattened(geometry);
  detail::Patches const patches = detail::patches_of(g);
  std::int64_t const in = g.in_channels / g.groups;
  std::int64_t const out = g.out_channels / g.groups;
  std::int64_t const pixels = patches.positions();
  std::int64_t const in_sample = g.in_channels * patches.pixels();
  std::int64_t const taps = in * patches.tap_count();
  std::int64_t const members = team.size();
  team.parallel_for(members, [=](std::int64_t member, std::int64_t) {
    T* const left_scratch = scratch + member * (detail::left_block + detail::right_block);
    for (std::int64_t group = 0; group < g.groups; ++group) {
      detail::PatchSource<T> const source{x + group * in * patches.pixels(), in_sample, x,
                                          x + batch * in_sample};
      T const* const group_dy = dy + group * out * pixels;
      T* const group_dweight = dweight + group * out * taps;
      auto const left = [=](std::int64_t row, std::int64_t rows, std::int64_t k,
                            std::int64_t depth) {
        for (std::int64_t i = 0; i < rows; i += detail::tile_rows) {
          detail::pack_positions(pixels, group_dy + (row + i) * pixels, g.out_channels * pixels,
                                 std::min<std::int64_t>(detail::tile_rows, rows - i), k, depth,
                                 left_scratch + i * depth);
        }
        return detail::LeftPanels<T>{left_scratch, detail::tile_rows * depth};
      };
      auto const right = [=](std::int64_t column, std::int64_t columns, std::int64_t k,
                             std::int64_t depth, T* panel) {
        detail::pack_patches_transposed(patches, source, column, columns, k, depth, panel);
      };
      detail::MatrixStore<T> const store{group_dweight, taps, accumulate};
      detail::multiply_blocks(detail::Part{out, taps, member, members}, batch * pixels, left, right,
                              store, left_scratch + detail::left_block);
    }
  });
  if (dbias == nullptr) {
    return;
  }
  team.parallel_for(g.out_channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const total = static_cast<T>(detail::channel_sum<T>(batch, g.out_channels, pixels, c,
                                                            [=](std::int64_t i) { return dy[i]; }));
      dbias[c] = accumulate ? dbias[c] + total : total;
    }
  });
}

}  // namespace tandem::host
