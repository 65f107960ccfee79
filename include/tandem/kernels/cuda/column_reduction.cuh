// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// column_reduction: sums over the rows of a (rows, columns) matrix, several sums in one pass.
///
/// Blocks sum chunks of rows; of those of the same columns the one that comes last adds the chunks'
/// sums in double, in an order that does not depend on which it is.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/chunk_sums.cuh>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// Term has types Columns and Values, `sums`, and columns(first column), values(row, first column)
/// and add(columns, values, sum), which adds one row's terms to sum[sums][N].
template <int N, class Real, class Term, class Result>
TANDEM_KERNEL void __launch_bounds__(column_threads, column_blocks)
    column_sums_kernel(Term term, ColumnTiles tiles, Real* partial, unsigned* arrivals,
                       Result result) {
  await_previous();
  constexpr int sums = Term::sums;
  constexpr int together = rows_together<typename Term::Values, N>;
  __shared__ Real shared[sums][N][column_threads];
  int const thread = static_cast<int>(threadIdx.x);
  ColumnPlace const place{tiles, thread, static_cast<int>(blockIdx.x),
                          static_cast<int>(blockIdx.y)};
  Real sum[sums][N] = {};
  std::int64_t row = place.begin + place.down;
  if (place.works && row < place.end) {
    typename Term::Columns const columns = term.columns(place.column);
    for (; row + (together - 1) * tiles.down < place.end; row += together * tiles.down) {
      typename Term::Values values[together];
      for (int i = 0; i < together; ++i) {
        values[i] = term.values(row + i * tiles.down, place.column);
      }
      for (int i = 0; i < together; ++i) {
        term.add(columns, values[i], sum);
      }
    }
    for (; row < place.end; row += tiles.down) {
      term.add(columns, term.values(row, place.column), sum);
    }
  }
  for (int s = 0; s < sums; ++s) {
    for (int v = 0; v < N; ++v) {
      shared[s][v][thread] = sum[s][v];
    }
  }
  merge_down(tiles.across, tiles.down, [&](int to, int from) {
    for (int s = 0; s < sums; ++s) {
      for (int v = 0; v < N; ++v) {
        shared[s][v][to] += shared[s][v][from];
      }
    }
  });
  bool const gives = place.down == 0 && place.works;
  if (tiles.chunks == 1) {
    for (int v = 0; gives && v < N; ++v) {
      double total[sums];
      for (int s = 0; s < sums; ++s) {
        total[s] = static_cast<double>(shared[s][v][thread]);
      }
      result(place.column + v, total);
    }
    return;
  }
  for (int s = 0; gives && s < sums; ++s) {
    for (int v = 0; v < N; ++v) {
      std::int64_t const out = std::int64_t{s} * tiles.chunks + static_cast<int>(blockIdx.y);
      partial[out * tiles.columns + place.column + v] = shared[s][v][thread];
    }
  }
  if (!comes_last(arrivals + blockIdx.x, tiles.chunks)) {
    return;
  }
  ChunkSums<N, Real> const chunks{tiles, thread, static_cast<int>(blockIdx.x)};
  double total[sums][chunks.columns];
  for (int s = 0; s < sums; ++s) {
    chunks.add(
        partial + std::int64_t{s} * tiles.chunks * tiles.columns,
        [](double own, int /*v*/, int /*chunk*/) { return own; }, total[s]);
  }
  for (int v = 0; chunks.gives() && v < chunks.columns; ++v) {
    double own[sums];
    for (int s = 0; s < sums; ++s) {
      own[s] = total[s][v];
    }
    result(chunks.column + v, own);
  }
}

}  // namespace detail

/// Scratch of column_reduction with @p sums sums over at most @p rows rows.
template <class T>
constexpr std::int64_t column_reduction_scratch_bytes(std::int64_t rows, int columns, int sums) {
  return sums * most_chunks<T>(rows, columns) * columns *
         static_cast<std::int64_t>(sizeof(ComputeType<T>));
}

/// Sums the terms of make(std::integral_constant<int, N>), N columns at once, over the rows of each
/// column, and calls result(column, double const (&sums)[...]) once for each column.
///
/// T is the type of the elements that are read.
/// Order: a thread adds every down-th row of its chunk, in ComputeType<T>; then the threads of a
///        block as a binary tree; then that of ChunkSums.
/// Cost:  one launch.
/// @pre   scratch has column_reduction_scratch_bytes<T>(rows, columns, sums), and begins at a
///        multiple of 16 bytes
template <class T, class Make, class Result>
void column_reduction(Stream const& stream, std::int64_t rows, int columns, std::byte* scratch,
                      Make const& make, Result const& result) {
  if (columns == 0) {
    return;
  }
  using Real = ComputeType<T>;
  ColumnTiles const tiles = column_tiles<T>(rows, columns);
  Grid const grid{static_cast<unsigned>(tiles.groups), static_cast<unsigned>(tiles.chunks)};
  auto* const partial = reinterpret_cast<Real*>(scratch);
  with_column_vector<T>(columns, [&](auto width) {
    auto const term = make(width);
    using Term = decltype(make(width));
    constexpr int n = decltype(width)::value;
    launch(detail::column_sums_kernel<n, Real, Term, Result>, grid, column_threads, stream, term,
           tiles, partial, stream.arrivals(), result);
  });
}

}  // namespace tandem::cuda
