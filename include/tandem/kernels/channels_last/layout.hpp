// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Between the layout that users know, (B, C, pixels), and channels-last, (B, pixels, C), from one
/// type to another.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/elementwise.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

namespace detail {

/// to[j][i] = from[i][j], rows rows of columns elements at these strides. A square of 16 x 16 is
/// read row by row and written row by row, so that no cache line is touched by single elements.
template <class From, class To>
TANDEM_NOINLINE void transpose(From const* from, std::int64_t from_stride, To* to,
                               std::int64_t to_stride, int rows, int columns) {
  float square[lanes][lanes];
  for (int i = 0; i < rows; ++i) {
    float row[lanes];
    FirstLanes const some{columns};
    store(row, columns == lanes ? load(from + i * from_stride) : some.load(from + i * from_stride));
    for (int j = 0; j < lanes; ++j) {
      square[j][i] = row[j];
    }
  }
  for (int j = 0; j < columns; ++j) {
    if (rows == lanes) {
      store(to + j * to_stride, load(square[j]));
    } else {
      store(to + j * to_stride, load(square[j], rows), rows);
    }
  }
}

/// A matrix for each sample: y[j][i] = x[i][j], x of rows rows and columns columns. Threads split
/// the batch and stripes of 16 columns.
template <class From, class To>
void transpose_each(Team& team, int batch, std::int64_t rows, std::int64_t columns, From const* x,
                    To* y) {
  std::int64_t const stripes = (columns + lanes - 1) / lanes;
  team.parallel_for(batch * stripes, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      std::int64_t const sample = task / stripes * rows * columns;
      std::int64_t const j = task % stripes * lanes;
      for (std::int64_t i = 0; i < rows; i += lanes) {
        transpose(x + sample + i * columns + j, columns, y + sample + j * rows + i, rows,
                  static_cast<int>(std::min<std::int64_t>(lanes, rows - i)),
                  static_cast<int>(std::min<std::int64_t>(lanes, columns - j)));
      }
    }
  });
}

}  // namespace detail

/// y[b][p][c] = x[b][c][p], rounded where To is narrower.
///
/// Shapes: x (B, C, pixels); y (B, pixels, C).
/// Cost:   reads and writes each element once.
template <class From, class To>
TANDEM_NOINLINE void to_channels_last(Team& team, int batch, int channels, std::int64_t pixels,
                                      From const* x, To* y) {
  if (channels == 1 || pixels == 1) {
    convert(team, x, y, batch * channels * pixels);
  } else if (channels == 3) {  // what images have
    team.parallel_for(batch * pixels, [=](std::int64_t begin, std::int64_t end) {
      while (begin < end) {
        std::int64_t const sample = begin / pixels;
        std::int64_t const stop = std::min(end, (sample + 1) * pixels);
        From const* const red = x + 2 * sample * pixels;  // + begin: the pixel's own plane
        for (; begin < stop; ++begin) {
          for (int c = 0; c < 3; ++c) {
            y[3 * begin + c] = static_cast<To>(static_cast<float>(red[begin + c * pixels]));
          }
        }
      }
    });
  } else {
    detail::transpose_each(team, batch, channels, pixels, x, y);
  }
}

/// y[b][c][p] = x[b][p][c], rounded where To is narrower.
///
/// Shapes: x (B, pixels, C); y (B, C, pixels).
/// Cost:   reads and writes each element once.
template <class From, class To>
TANDEM_NOINLINE void from_channels_last(Team& team, int batch, int channels, std::int64_t pixels,
                                        From const* x, To* y) {
  if (channels == 1 || pixels == 1) {
    convert(team, x, y, batch * channels * pixels);
  } else {
    detail::transpose_each(team, batch, pixels, channels, x, y);
  }
}

}  // namespace tandem::host::channels_last
