// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Convolution: a product of the weights and the matrix of patches; with convolution_scratch.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/host/panels.hpp>
#include <tandem/kernels/host/patches.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Elements of T that each of the three convolution kernels needs as scratch for a Team of
/// @p threads: the blocks of each thread and one packed copy of the weights. Independent of the
/// batch.
template <class T>
constexpr std::int64_t convolution_scratch(ConvolutionGeometry const& g, int threads) {
  std::int64_t const in = g.in_channels / g.groups;
  std::int64_t const out = g.out_channels / g.groups;
  std::int64_t const weights = std::max(detail::round_up(out, detail::tile_rows) * in,
                                        detail::round_up(in, detail::tile_rows) * out) *
                               g.window.kernel.height * g.window.kernel.width * g.groups;
  return threads * (detail::left_block + detail::right_block) + weights;
}

namespace detail {

/// One product with a matrix of patches: to = [bias +] left * patches of from.
///
/// @p to points to the first channel of the group in sample 0. Position (i, j) of the
/// grid is pixel (corner.height + i step.height, corner.width + j step.width) of `to`.
template <class T>
struct Correlation {
  Patches patches{};
  std::int64_t rows = 0;    // channels of `to`
  std::int64_t depth = 0;   // channels of `from` times taps
  T const* left = nullptr;  // packed panels of the whole depth
  T const* bias = nullptr;  // (rows), or null
  PatchSource<T> from{};
  T* to = nullptr;
  std::int64_t to_sample = 0;
  Extent2d to_image{};
  Extent2d corner{0, 0};
  Extent2d step{1, 1};
};

/// Stores tiles of a Correlation into its maps; keeps the runs of the panel of columns it is in.
template <class T>
class CorrelationStore {
 public:
  explicit CorrelationStore(Correlation<T> const& correlation) : c_{correlation} {}

  void operator()(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  bool first, T const* tile) {
    if (column != column_) {
      length_ = split_into_runs(c_.patches.grid, column, static_cast<int>(columns), runs_);
      column_ = column;
    }
    std::int64_t const pixels = std::int64_t{c_.to_image.height} * c_.to_image.width;
    for (std::int64_t i = 0; i < rows; ++i, tile += tile_columns) {
      T const bias = c_.bias != nullptr ? c_.bias[row + i] : T{0};
      for (Run const* run = runs_; run != runs_ + length_; ++run) {
        T* const to =
            c_.to + run->sample * c_.to_sample + (row + i) * pixels +
            std::int64_t{c_.corner.height + run->row * c_.step.height} * c_.to_image.width +
            c_.corner.width + run->column * c_.step.width;
        store_run(to, tile + run->begin, run->count, first, bias);
      }
    }
  }

 private:
  void store_run(T* to, T const* tile, int count, bool first, T bias) const {
    std::int64_t const step = c_.step.width;
    if (step == 1 && first) {
      for (int j = 0; j < count; ++j) {
        to[j] = bias + tile[j];
      }
    } else if (step == 1) {
      for (int j = 0; j < count; ++j) {
        to[j] += tile[j];
      }
    } else {
      for (int j = 0; j < count; ++j) {
        to[j * step] = (first ? bias : to[j * step]) + tile[j];
      }
    }
  }

  Correlation<T> const& c_;
  std::int64_t column_ = -1;
  int length_ = 0;
  Run runs_[tile_columns];
};

/// One member's part of a Correlation over a batch. @p scratch: right_block elements.
template <class T>
void correlate(Correlation<T> const& c, int batch, std::int64_t member, std::int64_t members,
               T* scratch) {
  auto const left = [&](std::int64_t row, std::int64_t, std::int64_t p, std::int64_t) {
    return LeftPanels<T>{c.left + row * c.depth + p * tile_rows, tile_rows * c.depth};
  };
  auto const right = [&](std::int64_t column, std::int64_t columns, std::int64_t p,
                         std::int64_t depth, T* panel) {
    pack_patches(c.patches, c.from, column, columns, p, depth, panel);
  };
  Part const part{c.rows, batch * c.patches.positions(), member, members};
  multiply_blocks(part, c.depth, left, right, CorrelationStore<T>{c}, scratch);
}

}  // namespace detail

/// y = convolution of x with the weights, plus the bias.
///
/// Shapes: x (B, in_channels, in), weight (out_channels, in_channels / groups, kernel), bias
///         (out_channels) or null; y (B, out_channels, out); scratch (convolution_scratch).
/// Cost:   B g.macs() multiply-accumulates; measured in bench/kernels/convolution_bench.cpp.
/// Order:  for each element the bias, then the taps (channel, row, column) in blocks of 256, each
///         summed in order. A sample's bits do not depend on its batch.
/// Source: LeCun, Bottou, Bengio, Haffner, Proc. IEEE 86 (1998); "convolution" is a correlation
/// here
template <class T>
TANDEM_NOINLINE void convolution_forward(Team& team, ConvolutionGeometry const& geometry, int batch,
                                         T const* x, T const* weight, T const* bias, T* y,
                                         T* scratch) {
  ConvolutionGeometry const g = detail::flattened(geometry);
  detail::Patches const patches = detail::patches_of(g);
  std::int64_t const in = g.in_channels / g.groups;
  std::int64_t const out = g.out_channels / g.groups;
  std::int64_t const depth = in * patches.tap_count();
  std::int64_t const panels = (out + detail::tile_rows - 1) / detail::tile_rows;
  std::int64_t const group_left = panels * detail::tile_rows * depth;
  T* const packed = scratch + team.size() * (detail::left_block + detail::right_block);
  team.parallel_for(g.groups * panels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t q = begin; q < end; ++q) {
      std::int64_t const row = q % panels * detail::tile_rows;
      detail::pack_panel<detail::tile_rows>(std::min<std::int64_t>(detail::tile_rows, out - row),
                                            depth, weight + (q / panels * out + row) * depth, depth,
                                            1, packed + q * detail::tile_rows * depth);
    }
  });
  std::int64_t const members = team.size();
  std::int64_t const in_sample = g.in_channels * patches.pixels();
  std::int64_t const out_pixels = patches.positions();
  team.parallel_for(members, [=](std::int64_t member, std::int64_t) {
    for (std::int64_t group = 0; group < g.groups; ++group) {
      detail::Correlation<T> c{};
      c.patches = patches;
      c.rows = out;
      c.depth = depth;
      c.left = packed + group * group_left;
      c.bias = bias != nullptr ? bias + group * out : nullptr;
      c.from = {x + group * in * patches.pixels(), in_sample, x, x + batch * in_sample};
      c.to = y + group * out * out_pixels;
      c.to_sample = g.out_channels * out_pixels;
      c.to_image = g.out;
      detail::correlate(c, batch, member, members, scratch + member * detail::right_block);
    }
  });
}

}  // namespace tandem::host
