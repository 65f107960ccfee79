// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// column_reduction: sums over the rows of a (rows, columns) matrix, several sums in one pass.
///
/// Blocks sum chunks of rows; a second launch, only where there is more than one chunk, adds the
/// chunks' sums in double.

#include <cstddef>
#include <cstdint>

#include <cub/warp/warp_reduce.cuh>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// Threads of a combining block: 8 neighbouring columns, which are 32 bytes or more of a row of
/// partial results, by 32 lanes that share the chunks.
inline constexpr int combine_columns = 8;
inline constexpr int combine_lanes = 32;

/// Sums over each column's lanes: thread lane * combine_columns + column gives @p own; the first
/// thread of warp `column` gets the column's sum, the others nothing of use.
/// @pre all threads of the block call it
__device__ inline double sum_combine_lanes(double own) {
  using Reduce = cub::WarpReduce<double>;
  __shared__ double cell[combine_columns][combine_lanes + 1];
  __shared__ Reduce::TempStorage storage[combine_columns];
  int const thread = static_cast<int>(threadIdx.x);
  int const warp = thread / combine_lanes;
  __syncthreads();  // after an earlier call
  cell[thread % combine_columns][thread / combine_columns] = own;
  __syncthreads();
  return Reduce{storage[warp]}.Sum(cell[warp][thread % combine_lanes]);
}

/// Adds the chunks' sums, partial (Sums, chunks, columns), and hands them to @p result.
template <int Sums, class Real, class Result>
TANDEM_KERNEL void column_combine_kernel(Real const* partial, ColumnTiles tiles, Result result) {
  int const thread = static_cast<int>(threadIdx.x);
  int const first = static_cast<int>(blockIdx.x) * combine_columns;
  int const column = first + thread % combine_columns;
  int const chunks = column < tiles.columns ? tiles.chunks : 0;
  double total[Sums];
  for (int s = 0; s < Sums; ++s) {
    double sum = 0;
    for (int chunk = thread / combine_columns; chunk < chunks; chunk += combine_lanes) {
      std::int64_t const row = std::int64_t{s} * tiles.chunks + chunk;
      sum += static_cast<double>(partial[row * tiles.columns + column]);
    }
    total[s] = sum_combine_lanes(sum);
  }
  int const summed = first + thread / combine_lanes;
  if (thread % combine_lanes == 0 && summed < tiles.columns) {
    result(summed, total);
  }
}

/// Calls merge(thread, other) so that the threads below one another end in the topmost: a binary
/// tree. Its results lie beside one another, one a column, where a collective of CUB has one.
/// @pre all threads of the block call it, after they wrote what is merged
template <class Merge>
__device__ void merge_down(ColumnTiles const& tiles, ColumnPlace const& place, Merge const& merge) {
  int const thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  for (int rest = tiles.down; rest > 1;) {
    int const half = (rest + 1) / 2;
    if (place.down + half < rest) {
      merge(thread, thread + half * tiles.across);
    }
    __syncthreads();
    rest = half;
  }
}

/// Term has types Columns and Values, `sums`, and columns(first column), values(row, first column)
/// and add(columns, values, sum), which adds one row's terms to sum[sums][N].
template <int N, class Real, class Term, class Result>
TANDEM_KERNEL void __launch_bounds__(column_threads, column_blocks)
    column_sums_kernel(Term term, ColumnTiles tiles, Real* partial, Result result) {
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
  merge_down(tiles, place, [&](int to, int from) {
    for (int s = 0; s < sums; ++s) {
      for (int v = 0; v < N; ++v) {
        shared[s][v][to] += shared[s][v][from];
      }
    }
  });
  if (place.down != 0 || !place.works) {
    return;
  }
  for (int v = 0; v < N; ++v) {
    if (tiles.chunks == 1) {
      double total[sums];
      for (int s = 0; s < sums; ++s) {
        total[s] = static_cast<double>(shared[s][v][thread]);
      }
      result(place.column + v, total);
    } else {
      for (int s = 0; s < sums; ++s) {
        std::int64_t const out = std::int64_t{s} * tiles.chunks + static_cast<int>(blockIdx.y);
        partial[out * tiles.columns + place.column + v] = shared[s][v][thread];
      }
    }
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
///        block as a binary tree; then 32 lanes the chunks, in double; then CUB adds the warp.
/// @pre   scratch has column_reduction_scratch_bytes<T>(rows, columns, sums)
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
           tiles, partial, result);
    if (tiles.chunks > 1) {
      launch(detail::column_combine_kernel<Term::sums, Real, Result>,
             blocks_for(columns, detail::combine_columns),
             detail::combine_columns * detail::combine_lanes, stream, partial, tiles, result);
    }
  });
}

}  // namespace tandem::cuda
