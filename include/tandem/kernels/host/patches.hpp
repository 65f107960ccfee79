// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The matrix of patches of a convolution ("im2col"), never stored: its panels are read off the
/// image.
///
/// Its rows are taps (channel, row, column of the kernel), its columns positions (sample, row,
/// column of the grid). Source: Chellapilla, Puri, Simard, IWFHR 2006, section 4.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <tandem/core/geometry.hpp>
#include <tandem/kernels/host/panels.hpp>

namespace tandem::host::detail {

/// How patches lie on an image: tap (u, v) at grid position (i, j) is pixel
/// (first.height + i stride.height + u dilation.height, first.width + j stride.width +
/// v dilation.width), zero outside the image.
struct Patches {
  Extent2d image;
  Extent2d taps;
  Extent2d grid;
  Extent2d stride;
  Extent2d first;
  Extent2d dilation;

  [[nodiscard]] constexpr std::int64_t positions() const {
    return std::int64_t{grid.height} * grid.width;
  }
  [[nodiscard]] constexpr std::int64_t pixels() const {
    return std::int64_t{image.height} * image.width;
  }
  [[nodiscard]] constexpr std::int64_t tap_count() const {
    return std::int64_t{taps.height} * taps.width;
  }
};

/// What the forward pass reads.
constexpr Patches patches_of(ConvolutionGeometry const& g) {
  return {g.in,
          g.window.kernel,
          g.out,
          g.window.stride,
          {-g.window.padding.height, -g.window.padding.width},
          g.window.dilation};
}

/// The same convolution, on images of one row where the kernel is one cell that visits every pixel.
constexpr ConvolutionGeometry flattened(ConvolutionGeometry g) {
  if (g.window == Window{}) {
    g.in = g.out = {1, g.in.height * g.in.width};
  }
  return g;
}

/// Positions that are neighbours in one row of one sample's grid.
struct Run {
  std::int64_t sample;
  int row, column;   // of the first position, on the grid
  int begin, count;  // where it stands among the positions asked for
};

/// Splits the positions [first, first + count) of a batch into runs; returns how many there are.
///
/// @pre runs has room for @p count elements
inline int split_into_runs(Extent2d grid, std::int64_t first, int count, Run* runs) {
  std::int64_t const positions = std::int64_t{grid.height} * grid.width;
  std::int64_t sample = first / positions;
  int row = static_cast<int>(first % positions) / grid.width;
  int column = static_cast<int>(first % positions) % grid.width;
  int length = 0;
  for (int begin = 0; begin < count; ++length) {
    int const run = std::min(count - begin, grid.width - column);
    runs[length] = {sample, row, column, begin, run};
    begin += run;
    column = 0;
    if (++row == grid.height) {
      row = 0;
      ++sample;
    }
  }
  return length;
}

/// What one tap sees of one run: positions [low, high) are inside the image, the pixel under the
/// run's first position is `pixel` elements after the start of a channel, if it is inside.
struct View {
  int low, high;
  std::int64_t pixel;

  constexpr View(Patches const& patches, Run const& run, int tap) : low{0}, high{0}, pixel{0} {
    int const u = tap / patches.taps.width;
    int const v = tap % patches.taps.width;
    int const stride = patches.stride.width;
    int const h =
        patches.first.height + run.row * patches.stride.height + u * patches.dilation.height;
    int const w = patches.first.width + run.column * stride + v * patches.dilation.width;
    pixel = std::int64_t{h} * patches.image.width + w;
    if (h >= 0 && h < patches.image.height) {
      int const room = patches.image.width - w;
      low = std::min(run.count, w < 0 ? (stride - 1 - w) / stride : 0);
      high = std::clamp(room > 0 ? (room + stride - 1) / stride : 0, low, run.count);
    }
  }
};

/// The batch that patches are read from, one group of its channels.
template <class T>
struct PatchSource {
  T const* x;           // the group's first channel in sample 0
  std::int64_t sample;  // elements from sample to sample
  T const* begin;       // the whole tensor
  T const* end;
};

/// Copies @p rows rows of @p count elements; a count that is a power of two needs no call.
template <class T>
void copy_rows(std::int64_t rows, int count, T const* x, std::int64_t x_stride, T* to,
               std::int64_t to_stride) {
  auto const each = [=](auto bytes) {
    for (std::int64_t i = 0; i < rows; ++i) {
      std::memcpy(to + i * to_stride, x + i * x_stride, bytes());
    }
  };
  switch (count) {
    case 8:
      return each([] { return 8 * sizeof(T); });
    case 16:
      return each([] { return 16 * sizeof(T); });
    case 32:
      return each([] { return 32 * sizeof(T); });
    default:
      return each([count] { return static_cast<std::size_t>(count) * sizeof(T); });
  }
}

/// Packs taps [k, k + depth) of positions [column, column + columns) as a right panel: k is the
/// tap.
template <class T>
void pack_patches(Patches const& patches, PatchSource<T> const& source, std::int64_t column,
                  std::int64_t columns, std::int64_t k, std::int64_t depth, T* panel) {
  Run runs[tile_columns];
  int const length = split_into_runs(patches.grid, column, static_cast<int>(columns), runs);
  if (columns < tile_columns) {
    std::fill(panel, panel + depth * tile_columns, T{0});
  }
  int const taps = static_cast<int>(patches.tap_count());
  std::int64_t const pixels = patches.pixels();
  std::int64_t const to_stride = std::int64_t{taps} * tile_columns;
  for (int tap = 0; tap < taps; ++tap) {
    // Rows k + p, p + taps, p + 2 taps, … are this tap of one channel after the other.
    std::int64_t const p = ((tap - k) % taps + taps) % taps;
    std::int64_t const channels = p < depth ? (depth - p + taps - 1) / taps : 0;
    if (channels == 0) {
      continue;
    }
    for (Run const* run = runs; run != runs + length; ++run) {
      View const view{patches, *run, tap};
      T const* const channel = source.x + run->sample * source.sample + (k + p) / taps * pixels;
      T* const to = panel + p * tile_columns + run->begin;
      int low = view.low;
      int high = view.high;
      if (low < high && patches.stride.width == 1) {
        // A whole run, with what the tensor holds around the image, where there is such a thing.
        std::int64_t const before = channel - source.begin + view.pixel;
        std::int64_t const last = before + (channels - 1) * pixels + run->count;
        if (before >= 0 && last <= source.end - source.begin) {
          copy_rows(channels, run->count, source.begin + before, pixels, to, to_stride);
        } else {
          copy_rows(channels, high - low, channel + (view.pixel + low), pixels, to + low,
                    to_stride);
        }
      } else {
        for (std::int64_t c = 0; c < channels; ++c) {
          for (int j = low; j < high; ++j) {
            to[c * to_stride + j] =
                channel[c * pixels + view.pixel + std::int64_t{j} * patches.stride.width];
          }
        }
      }
      for (std::int64_t c = 0; c < channels && high - low < run->count; ++c) {
        std::fill(to + c * to_stride, to + c * to_stride + low, T{0});
        std::fill(to + c * to_stride + high, to + c * to_stride + run->count, T{0});
      }
    }
  }
}

/// Packs positions [k, k + depth) of taps [column, column + columns) as a right panel: k is the
/// position, as the weight gradient sums over them.
template <class T>
void pack_patches_transposed(Patches const& patches, PatchSource<T> const& source,
                             std::int64_t column, std::int64_t columns, std::int64_t k,
                             std::int64_t depth, T* panel) {
  Run runs[block_depth];
  int const length = split_into_runs(patches.grid, k, static_cast<int>(depth), runs);
  if (columns < tile_columns) {
    std::fill(panel, panel + depth * tile_columns, T{0});
  }
  std::int64_t const taps = patches.tap_count();
  for (std::int64_t j = 0; j < columns; ++j) {
    T const* const channel = source.x + (column + j) / taps * patches.pixels();
    int const tap = static_cast<int>((column + j) % taps);
    for (Run const* run = runs; run != runs + length; ++run) {
      View const view{patches, *run, tap};
      std::int64_t const from = run->sample * source.sample + view.pixel;
      T* const to = panel + std::int64_t{run->begin} * tile_columns + j;
      for (int i = 0; i < view.low; ++i) {
        to[i * tile_columns] = T{0};
      }
      for (int i = view.low; i < view.high; ++i) {
        to[i * tile_columns] = channel[from + std::int64_t{i} * patches.stride.width];
      }
      for (int i = view.high; i < run->count; ++i) {
        to[i * tile_columns] = T{0};
      }
    }
  }
}

}  // namespace tandem::host::detail
