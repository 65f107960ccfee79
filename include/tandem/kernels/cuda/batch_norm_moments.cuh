// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Mean and variance of each column of a (rows, columns) matrix, safe where |mean| >> deviation.
///
/// Values are counted from the first row, so that a common offset costs no digits; within a chunk
/// means and squares of distances are updated in groups of four rows and merged pairwise.
/// Sources: Welford, Technometrics 4 (1962); Chan, Golub, LeVeque, Am. Stat. 37 (1983).

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/column_reduction.cuh>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/moments.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// Where the moments of the columns go.
template <class P>
struct MomentsResult {
  P epsilon;
  P* mean;
  P* inverse_deviation;
  P* variance;
};

/// Merges the chunks of a group of columns, in double, and writes what batch_norm_forward saves.
/// @param partial  (2, chunks, columns): each chunk's mean, from the first row's value, and squares
template <int N, class T, class P>
__device__ void combine_moments(T const* x, ComputeType<T> const* partial, ColumnTiles const& tiles,
                                int thread, int group, MomentsResult<P> const& result) {
  using Chunks = ChunkSums<N, ComputeType<T>>;
  Chunks const chunks{tiles, thread, group};
  auto const count = [&](int chunk) {
    std::int64_t const rest = tiles.rows - chunk * tiles.chunk_rows;
    return static_cast<double>(rest < tiles.chunk_rows ? rest : tiles.chunk_rows);
  };
  double middle[Chunks::columns];  // from the first row of all to the mean
  chunks.add(
      partial, [&](double distance, int /*v*/, int chunk) { return count(chunk) * distance; },
      middle);
  for (int v = 0; v < Chunks::columns; ++v) {
    middle[v] /= static_cast<double>(tiles.rows);
  }
  double apart[Chunks::columns];
  chunks.add(
      partial,
      [&](double distance, int v, int chunk) {
        double const d = distance - middle[v];
        return count(chunk) * d * d;
      },
      apart);
  double within[Chunks::columns];
  chunks.add(
      partial + std::int64_t{tiles.chunks} * tiles.columns,
      [](double squares, int /*v*/, int /*chunk*/) { return squares; }, within);
  for (int v = 0; chunks.gives() && v < Chunks::columns; ++v) {
    using std::sqrt;
    int const c = chunks.column + v;
    double const spread = (within[v] + apart[v]) / static_cast<double>(tiles.rows);
    result.mean[c] = static_cast<P>(static_cast<double>(load(x[c])) + middle[v]);
    result.variance[c] = static_cast<P>(spread);
    result.inverse_deviation[c] =
        static_cast<P>(1.0 / sqrt(spread + static_cast<double>(result.epsilon)));
  }
}

/// Moments of each chunk; the last block of a group of columns merges them.
template <class T, int N, class P>
TANDEM_KERNEL void TANDEM_LAUNCH_BOUNDS(column_threads, column_blocks)
    column_moments_kernel(T const* x, std::int64_t stride, bool whole, ColumnTiles tiles,
                          ComputeType<T>* partial, unsigned* arrivals, MomentsResult<P> result) {
  await_previous();
  using Real = ComputeType<T>;
  constexpr int together = 4;
  __shared__ Moments<Real, N> shared[column_threads];
  int const thread = static_cast<int>(threadIdx.x);
  ColumnPlace const place{tiles, thread, static_cast<int>(blockIdx.x),
                          static_cast<int>(blockIdx.y)};
  Moments<Real, N> moments{};
  std::int64_t row = place.begin + place.down;
  if (place.works && row < place.end) {
    T const* const column = x + place.column;
    Pack<Real, N> const origin = loaded(load_columns<N>(column, whole));
    Pack<Real, N> const own = loaded(load_columns<N>(column + row * stride, whole));
    for (int v = 0; v < N; ++v) {
      moments.mean[v] = own.value[v] - origin.value[v];
    }
    for (; row < place.end; row += together * tiles.down) {
      Pack<T, N> packs[together];
      int used = 0;
      for (int i = 0; i < together; ++i) {
        std::int64_t const at = row + i * tiles.down;
        if (at < place.end) {
          packs[i] = load_columns<N>(column + at * stride, whole);
          used = i + 1;
        }
      }
      Real value[together][N];
      for (int i = 0; i < together; ++i) {
        for (int v = 0; v < N; ++v) {
          value[i][v] = i < used ? load(packs[i].value[v]) - origin.value[v] : Real{0};
        }
      }
      moments.add(value, used);
    }
  }
  shared[thread] = moments;
  merge_down(tiles.across, tiles.down, [&](int to, int from) { shared[to].join(shared[from]); });
  if (place.down == 0 && place.works) {
    std::int64_t const out = static_cast<std::int64_t>(blockIdx.y) * tiles.columns + place.column;
    for (int v = 0; v < N; ++v) {
      partial[out + v] = shared[thread].mean[v];
      partial[out + std::int64_t{tiles.chunks} * tiles.columns + v] = shared[thread].squares[v];
    }
  }
  if (comes_last(arrivals + blockIdx.x, tiles.chunks)) {
    combine_moments<N>(x, partial, tiles, thread, static_cast<int>(blockIdx.x), result);
  }
}

}  // namespace detail

/// Scratch of batch_norm_moments for at most @p rows rows.
template <class T>
constexpr std::int64_t batch_norm_moments_scratch_bytes(std::int64_t rows, int columns) {
  return column_reduction_scratch_bytes<T>(rows, columns, 2);
}

/// mean, variance (biased) and 1 / sqrt(variance + epsilon) of each column.
///
/// Shapes: x (rows, columns), rows @p stride elements apart (0: columns); mean, inverse_deviation,
///         variance (columns).
/// Cost:   reads x once; bound by memory. One launch.
/// Order:  a thread takes every down-th row of its chunk in groups of four; then the threads of a
///         block as a binary tree; then that of ChunkSums.
/// @pre    rows >= 1; scratch has batch_norm_moments_scratch_bytes<T>(rows, columns), and begins
///         at a multiple of 16 bytes
template <class T, class P>
void batch_norm_moments(Stream const& stream, T const* x, std::int64_t rows, int columns, P epsilon,
                        P* mean, P* inverse_deviation, P* variance, std::byte* scratch,
                        std::int64_t stride = 0) {
  RowStrides const strides = RowStrides{stride, stride}.of(columns);
  bool const whole = aligned(x) && strides.keep_aligned<T>();
  ColumnTiles const tiles = column_tiles<T>(rows, columns);
  Grid const grid{static_cast<unsigned>(tiles.groups), static_cast<unsigned>(tiles.chunks)};
  auto* const partial = reinterpret_cast<ComputeType<T>*>(scratch);
  detail::MomentsResult<P> const result{epsilon, mean, inverse_deviation, variance};
  with_column_vector<T>(columns, [&](auto width) {
    launch(detail::column_moments_kernel<T, decltype(width)::value, P>, grid, column_threads,
           stream, x, strides.x, whole, tiles, partial, stream.arrivals(), result);
  });
}

}  // namespace tandem::cuda
