// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// transpose: the border between (B, C, H, W), which users see, and (B, H, W, C), which kernels
/// use.

#include <cstdint>

#include <tandem/kernels/cuda/cast.cuh>
#include <tandem/kernels/cuda/image_launch.cuh>

namespace tandem::cuda {

namespace detail {

struct TransposeTile {
  static constexpr int size = 32;  ///< rows and columns in shared memory
  static constexpr int threads = 256;
  static constexpr int narrow = 8;  ///< up to this many rows or columns, no tile is used
};

/// One tile a block: read along the columns, written along the rows. CUB exchanges the items of
/// threads, but has no tile of rows that lie apart.
template <class T, class U>
TANDEM_KERNEL void transpose_kernel(int rows, int columns, Divider row_tiles, Divider column_tiles,
                                    T const* x, U* y) {
  await_previous();
  constexpr int tile = TransposeTile::size;
  constexpr int lines = TransposeTile::threads / tile;
  __shared__ ComputeType<T> cell[tile][tile + 1];  // one more: no two of a column share a bank
  std::uint32_t column_tile = blockIdx.x;
  std::uint32_t row_tile = column_tiles.split(column_tile);
  std::int64_t const sample = static_cast<std::int64_t>(row_tiles.split(row_tile));
  int const first_row = static_cast<int>(row_tile) * tile;
  int const first_column = static_cast<int>(column_tile) * tile;
  int const lane = static_cast<int>(threadIdx.x) % tile;
  int const line = static_cast<int>(threadIdx.x) / tile;
  T const* const from = x + sample * rows * columns;
  for (int r = line; r < tile; r += lines) {
    if (first_row + r < rows && first_column + lane < columns) {
      cell[r][lane] = load(from[std::int64_t{first_row + r} * columns + first_column + lane]);
    }
  }
  __syncthreads();
  U* const to = y + sample * rows * columns;
  for (int c = line; c < tile; c += lines) {
    if (first_column + c < columns && first_row + lane < rows) {
      to[std::int64_t{first_column + c} * rows + first_row + lane] = store<U>(cell[lane][c]);
    }
  }
}

/// One thread for each line of the longer kind, which walks the few of the other.
template <bool FewRows, class T, class U>
TANDEM_KERNEL void transpose_narrow_kernel(std::uint32_t count, ImageThreads threads, int rows,
                                           int columns, T const* x, U* y) {
  await_previous();
  std::uint32_t const thread = blockIdx.x * image_block + threadIdx.x;
  if (thread >= count) {
    return;
  }
  ImageIndex const at = threads(thread);  // of an image of one pixel, its channels the lines
  std::int64_t const start = at.sample * rows * columns;
  int const few = FewRows ? rows : columns;
  int const many = FewRows ? columns : rows;
  for (int k = 0; k < few; ++k) {
    std::int64_t const contiguous = start + std::int64_t{k} * many + at.channel;
    std::int64_t const strided = start + std::int64_t{at.channel} * few + k;
    y[FewRows ? strided : contiguous] = store<U>(load(x[FewRows ? contiguous : strided]));
  }
}

template <class T, class U>
void transpose_tiles(Stream const& stream, int batch, int rows, int columns, T const* x, U* y) {
  constexpr int tile = TransposeTile::size;
  std::int64_t const row_tiles = (rows + tile - 1) / tile;
  std::int64_t const column_tiles = (columns + tile - 1) / tile;
  std::int64_t const size = std::int64_t{rows} * columns;
  for_chunks(batch, row_tiles * column_tiles, [&](std::int64_t first, std::int64_t samples) {
    launch(transpose_kernel<T, U>, Grid{blocks_for(samples * row_tiles * column_tiles, 1)},
           TransposeTile::threads, stream, rows, columns, Divider{row_tiles}, Divider{column_tiles},
           x + first * size, y + first * size);
  });
}

template <bool FewRows, class T, class U>
void transpose_narrow(Stream const& stream, int batch, int rows, int columns, T const* x, U* y) {
  launch_images(transpose_narrow_kernel<FewRows, T, U>, stream, batch,
                {{1, 1}, FewRows ? columns : rows, 1}, rows, columns, x, y);
}

}  // namespace detail

/// y[s][j][i] = x[s][i][j], rounded to U.
///
/// Shapes: x (B, rows, columns); y (B, columns, rows).
/// Cost:   reads and writes each element once; bound by memory. One row or column: a cast.
/// @pre    x and y do not overlap
template <class T, class U>
void transpose(Stream const& stream, int batch, int rows, int columns, T const* x, U* y) {
  if (rows == 1 || columns == 1) {
    cast(stream, x, y, std::int64_t{batch} * rows * columns);
  } else if (rows <= detail::TransposeTile::narrow && rows <= columns) {
    detail::transpose_narrow<true>(stream, batch, rows, columns, x, y);
  } else if (columns <= detail::TransposeTile::narrow) {
    detail::transpose_narrow<false>(stream, batch, rows, columns, x, y);
  } else {
    detail::transpose_tiles(stream, batch, rows, columns, x, y);
  }
}

/// A batch of images from the order of users and checkpoints to that of the kernels.
///
/// Shapes: x (B, C, pixels); y (B, pixels, C).
template <class T, class U>
void to_channels_last(Stream const& stream, int batch, int channels, int pixels, T const* x, U* y) {
  transpose(stream, batch, channels, pixels, x, y);
}

/// And back.
///
/// Shapes: x (B, pixels, C); y (B, C, pixels).
template <class T, class U>
void from_channels_last(Stream const& stream, int batch, int channels, int pixels, T const* x,
                        U* y) {
  transpose(stream, batch, pixels, channels, x, y);
}

}  // namespace tandem::cuda
