// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Kernels on GradientRows: an embedding's gradient, sums of several, their square sums; how many
/// rows there are only the device knows.
///
/// Launches are as large as there may be rows, so a graph may capture them. Rows are found by
/// sorting numbers, those of sets that are added one behind another.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/embedding.cuh>
#include <tandem/kernels/cuda/gradient_rows.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/sort_pairs.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// The arrays in which keys are sorted, one behind another.
struct SortedRows {
  std::uint32_t* key;  ///< then the different ones
  std::int32_t* counted;
  std::uint32_t* sorted;
  std::int32_t* position;
  std::int32_t* begin;
  std::int32_t* found;
  std::byte* rest;  ///< scratch of CUB's

  /// Up to `rest`.
  static constexpr std::int64_t bytes(std::int64_t keys) {
    return 4 * array_bytes(keys) + array_bytes(keys + 2);
  }
  static SortedRows at(std::byte* memory, std::int64_t keys) {
    std::int64_t const each = array_bytes(keys);
    auto const numbers = [&](int i) { return reinterpret_cast<std::int32_t*>(memory + i * each); };
    return {reinterpret_cast<std::uint32_t*>(memory),
            numbers(1),
            reinterpret_cast<std::uint32_t*>(memory + 2 * each),
            numbers(3),
            numbers(4) + 1,
            numbers(4),
            memory + bytes(keys)};
  }

 private:
  static constexpr std::int64_t array_bytes(std::int64_t n) { return (n * 4 + 255) / 256 * 256; }
};

/// Queues that the keys are sorted, or says in @p bytes how much scratch that needs, where that is
/// null.
inline void sort_row_keys(Stream const& stream, std::int32_t keys, int limit, SortedRows const& to,
                          void* scratch, std::size_t& bytes) {
  sort_pairs(stream, KeyedValues<std::int32_t>{to.key, to.sorted, to.counted, to.position, keys},
             index_bits(std::int64_t{limit} + 1), scratch, bytes);
}
/// Queues that the first of equal neighbours is kept, and where it stands; or says likewise.
inline void select_row_keys(Stream const& stream, std::int32_t keys, SortedRows const& to,
                            void* scratch, std::size_t& bytes) {
  first_of_equals(stream, KeyedValues<std::int32_t>{to.sorted, to.key, to.counted, to.begin, keys},
                  to.found, scratch, bytes);
}

inline std::int64_t row_keys_bytes(Stream const& stream, std::int32_t keys, int limit) {
  std::size_t sort = 0;
  std::size_t select = 0;
  sort_row_keys(stream, keys, limit, {}, nullptr, sort);
  select_row_keys(stream, keys, {}, nullptr, select);
  return static_cast<std::int64_t>(std::max(sort, select));
}

/// Sorts the numbers of @p indices places and of @p sets, and gives @p out the different ones.
/// @pre scratch has @p bytes, as many as row_scratch_bytes() asks for; there is a number
template <class P>
SortedRows open_rows(Stream const& stream, std::int32_t const* index, std::int32_t indices,
                     RowSets<P> const& sets, GradientRows<P> const& out, std::byte* scratch,
                     std::int64_t bytes) {
  auto const keys = static_cast<std::int32_t>(indices + sets.count * sets.first.most);
  std::int64_t const left = bytes - SortedRows::bytes(keys);
  expects(left >= row_keys_bytes(stream, keys, out.limit),
          "cuda::open_rows: the scratch memory is smaller than row_scratch_bytes");
  SortedRows const runs = SortedRows::at(scratch, keys);
  auto const limit = static_cast<std::uint32_t>(out.limit);
  each(stream, keys, RowKeys<P>{index, indices, sets, limit, runs.key, runs.counted});
  auto rest = static_cast<std::size_t>(left);
  sort_row_keys(stream, keys, out.limit, runs, runs.rest, rest);
  rest = static_cast<std::size_t>(left);
  select_row_keys(stream, keys, runs, runs.rest, rest);
  each(stream, keys, OpenRows{runs.key, runs.found, limit, keys, runs.begin, out.row, out.count});
  return runs;
}

/// Where the rows of @p rows are moved to, while they are added: in front of its scratch.
template <class P>
GradientRows<P> moved_rows(GradientRows<P> const& rows) {
  return gradient_rows(reinterpret_cast<P*>(rows.scratch), rows.most, rows.width);
}

template <class P>
std::int64_t block_bytes(GradientRows<P> const& rows) {
  return gradient_rows_bytes(rows.most, rows.width, sizeof(P));
}

/// Block (i, g) writes 32 N columns of row i of the gradient: what was there before, and the sum.
/// @param indices  positions below are those of dy; the one behind them that of a row before
template <int N, class T, class P>
TANDEM_KERNEL void embedding_rows_kernel(T const* dy, int columns, std::int32_t indices,
                                         std::int32_t const* position, std::int32_t const* begin,
                                         std::int32_t const* count, P const* before, P* value,
                                         bool whole) {
  await_previous();
  std::int64_t const row = blockIdx.x;
  if (row >= *count) {
    return;
  }
  int const first = begin[row];
  int end = begin[row + 1];
  std::int64_t const old = position[end - 1] - std::int64_t{indices};
  end -= old >= 0 ? 1 : 0;
  EmbeddingPlace<N> const place{static_cast<int>(threadIdx.x), blockIdx.y, columns};
  auto const sum = add_positions<N>(dy, columns, position, first, end, place);
  if (!place.gives()) {
    return;
  }
  Pack<P, N> result{};
  if (old >= 0) {
    result = load_columns<N>(before + old * columns + place.column, whole);
  }
  for (int v = 0; v < N && first < end; ++v) {
    result.value[v] += static_cast<P>(sum.value[v]);
  }
  store_columns<N>(value + row * columns + place.column, result, whole);
}

/// Thread i has pack i of the rows.
template <int N, int Levels, class P>
TANDEM_KERNEL void sum_rows_kernel(RowSets<P> sets, std::int32_t const* position,
                                   std::int32_t const* begin, std::int32_t const* count, P* value,
                                   int width) {
  await_previous();
  std::int64_t const pack = std::int64_t{blockIdx.x} * row_threads + static_cast<int>(threadIdx.x);
  int const packs = width / N;
  std::int64_t const row = pack / packs;
  if (row >= *count) {
    return;
  }
  int const first = static_cast<int>(pack % packs) * N;
  store_pack(value + row * width + first,
             sum_row<N, Levels>(sets, position, begin[row], begin[row + 1], first));
}

/// Block i writes the square sums of the chunks that row i speaks for.
template <class P>
TANDEM_KERNEL void row_squares_kernel(std::int32_t const* count, std::int32_t const* row,
                                      P const* value, int width, std::int64_t chunk,
                                      double* squares) {
  await_previous();
  RowChunks<P> const chunks{row, *count, value, width, chunk};
  auto const own = static_cast<std::int32_t>(blockIdx.x);
  if (own >= chunks.count) {
    return;
  }
  for (std::int64_t c = chunks.first(own); c < chunks.last(own); ++c) {
    double const sum =
        sum_lanes<row_threads>(chunks.squares(own, c, static_cast<int>(threadIdx.x), row_threads));
    if (threadIdx.x == 0) {
      squares[c] = sum;
    }
    __syncthreads();  // the next sum is in the same memory
  }
}

/// f(N, Levels), constants: numbers of a thread, and levels of a tree of @p sets.
template <class P, class F>
void with_tree(int width, int sets, F const& f) {
  auto const levels = [&](auto n) {
    if (sets <= 2) {
      f(n, std::integral_constant<int, 1>{});
    } else if (sets <= 8) {
      f(n, std::integral_constant<int, 3>{});
    } else {
      f(n, std::integral_constant<int, 8>{});
    }
  };
  if (width % full_pack<P> == 0) {
    levels(std::integral_constant<int, full_pack<P>>{});
  } else {
    levels(std::integral_constant<int, 1>{});
  }
}

/// out = the sum of @p sets, which it overlaps none of.
template <class P>
void sum_row_sets(Stream const& stream, RowSets<P> const& sets, GradientRows<P> const& out,
                  std::byte* scratch, std::int64_t bytes) {
  SortedRows const runs = open_rows(stream, nullptr, 0, sets, out, scratch, bytes);
  with_tree<P>(out.width, sets.count, [&](auto n, auto levels) {
    constexpr int width = decltype(n)::value;
    launch(sum_rows_kernel<width, decltype(levels)::value, P>,
           blocks_for(out.most * (out.width / width), row_threads), row_threads, stream, sets,
           runs.position, runs.begin, out.count, out.value, out.width);
  });
}

}  // namespace detail

/// Bytes for all that @p of says, at a multiple of 16.
/// @throws ContractError  more than 2^31 - 1 numbers would be sorted at once
inline std::int64_t row_scratch_bytes(Stream const& stream, RowScratch const& of) {
  auto const runs = [&](std::int64_t keys) {
    expects(keys < INT32_MAX,
            "RowGradient: more than 2^31 - 1 rows would be added at once; take smaller batches");
    return detail::SortedRows::bytes(keys) +
           detail::row_keys_bytes(stream, static_cast<std::int32_t>(keys), of.limit);
  };
  bool const moves = of.accumulates || of.tree;
  std::int64_t const pass = of.keys + (of.accumulates ? of.most : 0);
  std::int64_t const own = (moves ? of.block : 0) + runs(std::max(pass, of.tree ? 2 * of.most : 0));
  return of.replicas > 1 ? std::max(own, runs(of.replicas * of.most)) : own;
}

/// The rows of dtable = [+=] the sums of dy over the rows of each index: embedding_gradient's bits.
///
/// Shapes: index (n), dy (n, C); dtable as GradientRows of width C.
/// Cost:   sorts n numbers, with @p accumulate also those of the rows before; reads dy and writes
///         the rows once; with @p accumulate moves those before to scratch, as many as there may
///         be. Nothing is of the size of the table.
/// Order:  embedding_gradient's.
/// @pre    0 <= index[i] <= dtable.limit, which names no row; dtable has the scratch of
///         row_scratch_bytes()
template <class T, class P>
void embedding_gradient_rows(Stream const& stream, std::int32_t const* index, std::int32_t n,
                             T const* dy, GradientRows<P> const& dtable, bool accumulate) {
  RowSets<P> before{};
  std::int64_t moved = 0;
  if (accumulate) {
    before.first = detail::moved_rows(dtable);
    before.count = 1;
    moved = detail::block_bytes(dtable);
    copy_bytes(before.first.count, dtable.count, static_cast<std::size_t>(moved),
               cudaMemcpyDeviceToDevice, stream);
  } else if (n == 0) {
    clear_bytes(dtable.count, sizeof(std::int32_t), stream);
  }
  if (n + before.count == 0) {
    return;
  }
  detail::SortedRows const runs = detail::open_rows(
      stream, index, n, before, dtable, dtable.scratch + moved, dtable.scratch_bytes - moved);
  auto const queue = [&](auto width) {
    constexpr int columns = decltype(width)::value;
    Grid const grid{blocks_for(dtable.most, 1),
                    blocks_for(dtable.width, detail::embedding_across * columns)};
    bool const whole = columns % full_pack<P> == 0 && aligned(dtable.value);
    launch(detail::embedding_rows_kernel<columns, T, P>, grid, row_threads, stream, dy,
           dtable.width, n, runs.position, runs.begin, dtable.count, before.first.value,
           dtable.value, whole);
  };
  if (packs_channels(dtable.width, dy)) {
    queue(std::integral_constant<int, full_pack<T>>{});
  } else {
    queue(std::integral_constant<int, 1>{});
  }
}

/// y = x, all that there may be.
template <class P>
void copy_rows(Stream const& stream, GradientRows<P> const& x, GradientRows<P> const& y) {
  copy_bytes(y.count, x.count, static_cast<std::size_t>(detail::block_bytes(x)),
             cudaMemcpyDeviceToDevice, stream);
}

/// y = x + y, row by row.
///
/// Cost:  sorts the numbers of both; moves all that y may have to scratch, reads both and writes y.
/// @pre   both have room for as many; y has the scratch of row_scratch_bytes()
template <class P>
void add_rows(Stream const& stream, GradientRows<P> const& x, GradientRows<P> const& y) {
  GradientRows<P> const before = detail::moved_rows(y);
  copy_rows(stream, y, before);
  std::int64_t const moved = detail::block_bytes(y);
  detail::sum_row_sets(stream, RowSets<P>{x, before, 0, 2}, y, y.scratch + moved,
                       y.scratch_bytes - moved);
}

/// out = sets[0] + … + sets[n - 1]; `sets` itself is in host memory and may be reused at once.
///
/// Order: reduce_in_tree's of comm/fixed_tree.hpp.
/// Cost:  sorts the numbers of all; reads their rows and writes those of the sum once.
/// @pre   1 <= n <= 256; they stand in blocks of memory one behind another; out overlaps none, has
///        room for all, and the scratch of row_scratch_bytes()
template <class P>
void sum_gradient_rows(Stream const& stream, GradientRows<P> const* sets, int n,
                       GradientRows<P> const& out) {
  expects(n >= 1 && n <= 256, "cuda::sum_gradient_rows: give 1 to 256 sets of rows");
  RowSets<P> const all{sets[0], sets[n > 1 ? 1 : 0], detail::block_bytes(sets[0]), n};
  detail::sum_row_sets(stream, all, out, out.scratch, out.scratch_bytes);
}

/// squares[c] = the sum of the squares of chunk c, of @p chunk elements, of the dense gradient that
/// these rows are: gradient_squares' bits.
///
/// Shapes: squares (chunks).
/// Cost:   clears the squares, reads the rows once; bound by memory.
template <class P>
void gradient_row_squares(Stream const& stream, GradientRows<P> const& rows, std::int64_t chunk,
                          std::int64_t chunks, double* squares) {
  clear_bytes(squares, static_cast<std::size_t>(chunks) * sizeof(double), stream);
  launch(detail::row_squares_kernel<P>, blocks_for(rows.most, 1), row_threads, stream, rows.count,
         rows.row, rows.value, rows.width, chunk, squares);
}

}  // namespace tandem::cuda
