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
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda::detail {

/// Calls merge(thread, other) so that the threads below one another, @p down rows of @p across, end
/// in the topmost: a binary tree. Its results lie beside one another, one a column, where a
/// collective of CUB has one.
/// @pre all threads of the block call it, after they wrote what is merged
template <class Merge>
__device__ void merge_down(int across, int down, Merge const& merge) {
  int const thread = static_cast<int>(threadIdx.x);
  int const own = thread / across;
  __syncthreads();
  for (int rest = down; rest > 1;) {
    int const half = (rest + 1) / 2;
    if (own + half < rest) {
      merge(thread, thread + half * across);
    }
    __syncthreads();
    rest = half;
  }
}

/// Whether the calling block comes last of @p blocks to @p counter; if so it sees what the others
/// wrote before, by loads past the first cache. The counter is 0 again for the next kernel.
/// A block that is alone comes last and does not touch the counter, so a launch whose groups have
/// one block each may have more groups than there are counters.
/// @pre all threads of the block call it
/// Source: the threadFenceReduction sample of the CUDA Toolkit
__device__ inline bool comes_last(unsigned* counter, int blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (blocks == 1) {
    return true;
  }
  if (threadIdx.x == 0) {
    unsigned const largest = static_cast<unsigned>(blocks) - 1;
    last = atomicInc(counter, largest) == largest;
  }
  __syncthreads();
  __threadfence();
  return last;
}

/// @p N numbers that other blocks of the same kernel have written. The first cache may have what
/// stood there before.
template <int N, class T>
__device__ Pack<T, N> load_others(T const* x) {
  Pack<T, N> pack;
  if constexpr (N * sizeof(T) == sizeof(float4)) {
    float4 const all = __ldcg(reinterpret_cast<float4 const*>(x));
    __builtin_memcpy(&pack, &all, sizeof pack);
  } else {
    for (int i = 0; i < N; ++i) {
      pack.value[i] = __ldcg(x + i);
    }
  }
  return pack;
}

/// What lanes add; one memory for all sums of a kernel.
template <int Columns>
__device__ auto& lane_sums() {
  __shared__ double cell[Columns][column_threads];
  return cell;
}

/// The block's threads, as lanes by columns of one group. N columns are a thread's in the kernel.
///
/// Order: lanes take the chunks in turn, in double; then they are added as a binary tree. How many
///        lanes there are depends on the group's columns only.
template <int N, class Real>
struct ChunkSums {
  static constexpr int columns = N < full_pack<Real> ? N : full_pack<Real>;  ///< of a thread

  ColumnTiles const& tiles;
  int thread;
  int across;
  int lanes;
  int lane;
  int column;  ///< the first

  __device__ ChunkSums(ColumnTiles const& own, int own_thread, int group)
      : tiles{own},
        thread{own_thread},
        across{own.across * (N / columns)},
        lanes{column_threads / across},
        lane{own_thread / across},
        column{group * own.across * N + own_thread % across * columns} {}

  [[nodiscard]] __device__ bool works() const { return lane < lanes && column < tiles.columns; }
  /// Whether this thread speaks for its columns.
  [[nodiscard]] __device__ bool gives() const { return lane == 0 && works(); }

  /// total[v] = the sum of term(partial[chunk][column + v], v, chunk) over the chunks, for all
  /// lanes.
  /// @pre all threads of the block call it
  template <class Term>
  __device__ void add(Real const* partial, Term const& term, double (&total)[columns]) const {
    constexpr int together = 4;
    auto& cell = lane_sums<columns>();
    for (int v = 0; v < columns; ++v) {
      total[v] = 0;
    }
    for (int first = lane; works() && first < tiles.chunks; first += together * lanes) {
      Pack<Real, columns> packs[together] = {};
      for (int i = 0; i < together; ++i) {
        if (int const chunk = first + i * lanes; chunk < tiles.chunks) {
          packs[i] = load_others<columns>(partial + std::int64_t{chunk} * tiles.columns + column);
        }
      }
      for (int i = 0; i < together; ++i) {
        int const chunk = first + i * lanes;
        for (int v = 0; chunk < tiles.chunks && v < columns; ++v) {
          total[v] += term(static_cast<double>(packs[i].value[v]), v, chunk);
        }
      }
    }
    __syncthreads();  // after an earlier call
    for (int v = 0; v < columns; ++v) {
      cell[v][thread] = total[v];
    }
    merge_down(across, lanes, [&](int to, int from) {
      for (int v = 0; v < columns; ++v) {
        cell[v][to] += cell[v][from];
      }
    });
    for (int v = 0; v < columns; ++v) {
      total[v] = cell[v][thread % across];
    }
  }
};

}  // namespace tandem::cuda::detail

namespace tandem::cuda {

namespace detail {

/// Term has types Columns and Values, `sums`, and columns(first column), values(row, first column)
/// and add(columns, values, sum), which adds one row's terms to sum[sums][N].
template <int N, class Real, class Term, class Result>
TANDEM_KERNEL void TANDEM_LAUNCH_BOUNDS(column_threads, column_blocks)
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
