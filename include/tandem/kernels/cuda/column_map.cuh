// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// column_map: an element-wise kernel over a (rows, columns) matrix with constants of each column.
///
/// A thread keeps to its columns, so that it computes their constants once for many rows.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// Reads the values of @p Rows rows, then puts them, last row first. Values never become an array,
/// so that they stay in registers.
template <int Rows, class Map>
TANDEM_HOST_DEVICE void put_rows(Map const& map, typename Map::Columns const& columns,
                                 std::int64_t row, int step, int column) {
  typename Map::Values const values = map.values(row, column);
  if constexpr (Rows > 1) {
    put_rows<Rows - 1>(map, columns, row + step, step, column);
  }
  map.put(row, column, columns, values);
}

/// Map has types Columns and Values, and columns(first column), values(row, first column) and
/// put(row, first column, columns, values).
template <int N, class Map>
TANDEM_KERNEL void TANDEM_LAUNCH_BOUNDS(column_threads, column_blocks)
    column_map_kernel(Map map, ColumnTiles tiles) {
  await_previous();
  constexpr int together = rows_together<typename Map::Values, N>;
  ColumnPlace const place{tiles, static_cast<int>(threadIdx.x), static_cast<int>(blockIdx.x),
                          static_cast<int>(blockIdx.y)};
  std::int64_t row = place.begin + place.down;
  if (!place.works || row >= place.end) {
    return;
  }
  typename Map::Columns const columns = map.columns(place.column);
  for (; row + (together - 1) * tiles.down < place.end; row += together * tiles.down) {
    put_rows<together>(map, columns, row, tiles.down, place.column);
  }
  for (; row < place.end; row += tiles.down) {
    put_rows<1>(map, columns, row, tiles.down, place.column);
  }
}

}  // namespace detail

/// Runs @p make(std::integral_constant<int, N>), a map of N columns at once, over all elements.
///
/// T is the type that decides N: the smallest of the elements that the map reads and writes.
template <class T, class Make>
void column_map(Stream const& stream, std::int64_t rows, int columns, Make const& make) {
  if (rows == 0 || columns == 0) {
    return;
  }
  ColumnTiles const tiles = column_tiles<T>(rows, columns);
  Grid const grid{static_cast<unsigned>(tiles.groups), static_cast<unsigned>(tiles.chunks)};
  with_column_vector<T>(columns, [&](auto width) {
    auto const map = make(width);
    launch(detail::column_map_kernel<decltype(width)::value, decltype(make(width))>, grid,
           column_threads, stream, map, tiles);
  });
}

}  // namespace tandem::cuda
