// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ChunkSums: what the last block of a reduction over ColumnTiles makes of all blocks' results.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/pack.hpp>

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
