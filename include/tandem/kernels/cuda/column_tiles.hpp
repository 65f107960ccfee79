// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ColumnTiles: how blocks of threads cover a (rows, columns) matrix whose columns are channels.
///
/// A function of the sizes only, never of the device: it fixes the order of every sum over rows.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/pack.hpp>

namespace tandem::cuda {

/// Threads of a block that works on columns.
inline constexpr int column_threads = 256;

/// Such blocks that a multiprocessor shall hold at once, which bounds their registers.
inline constexpr int column_blocks = 2;

/// Blocks of `across` by `down` threads; a thread keeps to its `vector` neighbouring columns and
/// takes every down-th row of its chunk.
struct ColumnTiles {
  std::int64_t rows = 0;
  int columns = 0;
  int vector = 1;               ///< columns of a thread
  int across = 1;               ///< threads next to one another
  int down = 1;                 ///< threads below one another; across * down <= column_threads
  int groups = 1;               ///< blocks next to one another
  int chunks = 1;               ///< blocks below one another, each with rows unless rows is 0
  std::int64_t chunk_rows = 0;  ///< rows of a chunk; the last one may have fewer
};

/// Columns that a thread takes: 16 bytes where the rows divide into such pieces, else one.
template <class T>
constexpr int column_vector(int columns) {
  return columns % full_pack<T> == 0 ? full_pack<T> : 1;
}

/// Elements from row to row of what an op reads and of what it writes, where these are slices of
/// wider rows; 0: its own columns.
struct RowStrides {
  std::int64_t x = 0;
  std::int64_t y = 0;

  [[nodiscard]] constexpr RowStrides of(std::int64_t columns) const {
    return {x > 0 ? x : columns, y > 0 ? y : columns};
  }
  /// Whether rows that begin aligned stay so.
  template <class T>
  [[nodiscard]] constexpr bool keep_aligned() const {
    return x % full_pack<T> == 0 && y % full_pack<T> == 0;
  }
};

namespace detail {

/// Grows with the rows, but need not divide them.
constexpr std::int64_t wanted_chunks(ColumnTiles const& tiles) {
  constexpr std::int64_t blocks = 128 * column_blocks;
  std::int64_t const least = std::int64_t{8} * tiles.down;
  std::int64_t const most = tiles.groups < blocks ? blocks / tiles.groups : 1;
  std::int64_t const wanted = (tiles.rows + least - 1) / least;
  return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

}  // namespace detail

/// Tiles of at most 256 blocks (two for each of 128 multiprocessors, so that all run at once on the
/// largest GPUs; with three GoogLeNet took 1.04 times as long on an H100), in which a thread has 8
/// rows before there is a second chunk.
/// @pre columns >= 1
template <class T>
constexpr ColumnTiles column_tiles(std::int64_t rows, int columns) {
  constexpr int widest = 32;
  ColumnTiles tiles{.rows = rows, .columns = columns, .vector = column_vector<T>(columns)};
  int const vectors = columns / tiles.vector;
  tiles.groups = (vectors + widest - 1) / widest;
  tiles.across = (vectors + tiles.groups - 1) / tiles.groups;
  tiles.down = column_threads / tiles.across;
  std::int64_t const chunks = detail::wanted_chunks(tiles);
  tiles.chunk_rows = (rows + chunks - 1) / chunks;
  tiles.chunks = rows > 0 ? static_cast<int>((rows + tiles.chunk_rows - 1) / tiles.chunk_rows) : 1;
  return tiles;
}

/// At least column_tiles<T>(r, columns).chunks for every r <= rows.
template <class T>
constexpr std::int64_t most_chunks(std::int64_t rows, int columns) {
  return detail::wanted_chunks(column_tiles<T>(rows, columns));
}

/// Where one thread of a kernel over ColumnTiles works.
struct ColumnPlace {
  int across;  ///< its place in the block
  int down;
  int column;          ///< its first column
  std::int64_t begin;  ///< of its block's chunk
  std::int64_t end;
  bool works;  ///< it has columns

  TANDEM_HOST_DEVICE ColumnPlace(ColumnTiles const& tiles, int thread, int group, int chunk)
      : across{thread % tiles.across},
        down{thread / tiles.across},
        column{(group * tiles.across + across) * tiles.vector},
        begin{chunk * tiles.chunk_rows},
        end{begin + tiles.chunk_rows < tiles.rows ? begin + tiles.chunk_rows : tiles.rows},
        works{down < tiles.down && column < tiles.columns} {}
};

/// @p N elements at @p x, at once if @p whole, which says that x is aligned as their Pack is.
template <int N, class T>
TANDEM_HOST_DEVICE Pack<T, N> load_columns(T const* x, bool whole) {
  if (whole) {
    return load_pack<N>(x);
  }
  Pack<T, N> pack;
  for (int i = 0; i < N; ++i) {
    pack.value[i] = x[i];
  }
  return pack;
}

/// @p Count constants of neighbouring columns, at once if they are aligned.
template <class Real, std::size_t Count, class P>
TANDEM_HOST_DEVICE void load_constants(P const* x, Real (&to)[Count]) {
  constexpr int N = static_cast<int>(Count);
  bool const whole = N % full_pack<P> == 0 && reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  Pack<P, N> const pack = load_columns<N>(x, whole);
  for (int i = 0; i < N; ++i) {
    to[i] = static_cast<Real>(pack.value[i]);
  }
}

template <int N, class T>
TANDEM_HOST_DEVICE void store_columns(T* y, Pack<T, N> const& pack, bool whole) {
  if (whole) {
    store_pack<N>(y, pack);
    return;
  }
  for (int i = 0; i < N; ++i) {
    y[i] = pack.value[i];
  }
}

/// Rows of which a thread reads the values before it uses the first: enough bytes in flight, few
/// enough registers.
template <class Values, int N>
inline constexpr int rows_together = sizeof(Values) > 16 && N >= 8 ? 2 : 4;

/// f(std::integral_constant<int, N>), N the columns that a thread takes.
template <class T, class Function>
void with_column_vector(int columns, Function const& f) {
  if (column_vector<T>(columns) == 1) {
    f(std::integral_constant<int, 1>{});
  } else {
    f(std::integral_constant<int, full_pack<T>>{});
  }
}

}  // namespace tandem::cuda
