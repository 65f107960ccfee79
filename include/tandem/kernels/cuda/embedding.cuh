// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// An embedding: rows of a table at the places that tokens name, and the table's gradient.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/token_runs.cuh>
#include <tandem/kernels/functors/table_rows.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

template <int Lanes, int N, class T>
TANDEM_KERNEL void embedding_kernel(std::int32_t const* tokens, std::int64_t count, TableRows own,
                                    int columns, T const* table, T* y) {
  await_previous();
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, count};
  if (!place.works) {
    return;
  }
  int const at = own.at(tokens[place.row]);
  T* const to = y + place.row * columns;
  if (at == own.count) {
    for (int c = place.lane; c < columns; c += Lanes) {
      to[c] = store<T>(ComputeType<T>(-0.0F));
    }
    return;
  }
  T const* const from = table + std::int64_t{at} * columns;
  for (int c = place.lane * N; c < columns; c += Lanes * N) {
    store_pack(to + c, load_pack<N>(from + c));
  }
}

/// Threads of a block next to one another, each with N columns, and below one another, which share
/// the positions of a run.
inline constexpr int embedding_across = 32;
inline constexpr int embedding_down = row_threads / embedding_across;

/// A thread's sum over every embedding_down-th position of [first, end), in order; four rows at
/// once, so that their reads do not wait for one another.
template <int N, class T>
TANDEM_HOST_DEVICE Pack<ComputeType<T>, N> sum_positions(T const* dy, int columns,
                                                         std::int32_t const* position, int first,
                                                         int end) {
  constexpr int together = 4;
  constexpr int step = embedding_down;
  Pack<ComputeType<T>, N> sum{};
  int i = first;
  for (; i < end - (together - 1) * step; i += together * step) {
    Pack<T, N> row[together];
    for (int k = 0; k < together; ++k) {
      row[k] = load_pack<N>(dy + std::int64_t{position[i + k * step]} * columns);
    }
    for (int k = 0; k < together; ++k) {
      for (int v = 0; v < N; ++v) {
        sum.value[v] += load(row[k].value[v]);
      }
    }
  }
  for (; i < end; i += step) {
    Pack<T, N> const row = load_pack<N>(dy + std::int64_t{position[i]} * columns);
    for (int v = 0; v < N; ++v) {
      sum.value[v] += load(row.value[v]);
    }
  }
  return sum;
}

/// A thread of a block that has 32 N columns.
template <int N>
struct EmbeddingPlace {
  int lane;
  int down;
  int column;  ///< its first
  bool works;  ///< it has columns

  __device__ EmbeddingPlace(int thread, unsigned group, int columns)
      : lane{thread % embedding_across},
        down{thread / embedding_across},
        column{(static_cast<int>(group) * embedding_across + lane) * N},
        works{column < columns} {}

  /// Whether it speaks for its columns.
  [[nodiscard]] __device__ bool gives() const { return down == 0 && works; }
};

/// The sums over positions [begin, end), where the thread gives them.
/// @pre all threads of the block call it, once
template <int N, class T>
__device__ Pack<ComputeType<T>, N> add_positions(T const* dy, int columns,
                                                 std::int32_t const* position, int begin, int end,
                                                 EmbeddingPlace<N> const& place) {
  using Real = ComputeType<T>;
  __shared__ Real shared[embedding_down][N][embedding_across];
  if (place.works) {
    auto const own =
        sum_positions<N>(dy + place.column, columns, position, begin + place.down, end);
    for (int v = 0; v < N; ++v) {
      shared[place.down][v][place.lane] = own.value[v];
    }
  }
  __syncthreads();
  Pack<Real, N> result{};
  for (int v = 0; v < N && place.gives(); ++v) {
    Real sum = shared[0][v][place.lane];
    for (int d = 1; d < embedding_down; ++d) {
      sum += shared[d][v][place.lane];
    }
    result.value[v] = sum;
  }
  return result;
}

/// Block (v, g) writes 32 N columns of row v of the gradient.
template <int N, class T, class P>
TANDEM_KERNEL void embedding_gradient_kernel(T const* dy, int columns, TokenRuns runs, P* gradient,
                                             bool whole, bool accumulate) {
  await_previous();
  int const begin = runs.begin[blockIdx.x];
  int const end = runs.end[blockIdx.x];
  if (begin == end && accumulate) {
    return;
  }
  EmbeddingPlace<N> const place{static_cast<int>(threadIdx.x), blockIdx.y, columns};
  auto const sum = add_positions<N>(dy, columns, runs.position, begin, end, place);
  if (!place.gives()) {
    return;
  }
  P* const to = gradient + static_cast<std::int64_t>(blockIdx.x) * columns + place.column;
  Pack<P, N> result{};
  if (accumulate) {
    result = load_columns<N>(static_cast<P const*>(to), whole);
  }
  for (int v = 0; v < N; ++v) {
    result.value[v] += static_cast<P>(sum.value[v]);
  }
  store_columns<N>(to, result, whole);
}

}  // namespace detail

/// y[i] = table[tokens[i]]; -0.0 of rows that are not here, which changes no sum.
///
/// Shapes: tokens (count), table (V, columns), of which `own` stand at @p table; y (count,
///         columns).
/// Cost:   reads count rows of the table and writes y once; bound by memory. One launch.
/// @pre    0 <= tokens[i] < V
template <class T>
void embedding_forward(Stream const& stream, std::int32_t const* tokens, std::int64_t count,
                       TableRows own, int columns, T const* table, T* y) {
  with_row_lanes(columns, [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    auto const queue = [&](auto width) {
      launch(detail::embedding_kernel<n, decltype(width)::value, T>,
             blocks_for(count, row_threads / n), row_threads, stream, tokens, count, own, columns,
             table, y);
    };
    if (packs_channels(columns, table, static_cast<T const*>(y))) {
      queue(std::integral_constant<int, full_pack<T>>{});
    } else {
      queue(std::integral_constant<int, 1>{});
    }
  });
}

/// embedding_gradient() of tokens whose runs are known; these may have more words than the
/// gradient, and begin with its first.
template <class T, class P>
void embedding_gradient(Stream const& stream, TokenRuns const& runs, int vocabulary, int columns,
                        T const* dy, P* gradient, bool accumulate) {
  auto const queue = [&](auto width) {
    constexpr int n = decltype(width)::value;
    Grid const grid{static_cast<unsigned>(vocabulary),
                    blocks_for(columns, detail::embedding_across * n)};
    bool const whole = n % full_pack<P> == 0 && aligned(gradient);
    launch(detail::embedding_gradient_kernel<n, T, P>, grid, row_threads, stream, dy, columns, runs,
           gradient, whole, accumulate);
  };
  if (packs_channels(columns, dy)) {
    queue(std::integral_constant<int, full_pack<T>>{});
  } else {
    queue(std::integral_constant<int, 1>{});
  }
}

/// gradient[v] = [+=] the sum of dy[i] over the positions i where tokens[i] is v; 0 where it is
/// none.
///
/// Shapes: tokens (count), dy (count, columns), gradient (V, columns), of which `own` stand at
///         @p gradient.
/// Cost:   token_runs; reads dy and writes the gradient once; bound by memory.
/// Order:  of an index' positions thread d takes the d-th of every 8, in order, in ComputeType<T>;
///         then the threads in order; with @p accumulate the sum is added as one term.
/// @pre    0 <= tokens[i] < V < 2³¹, `own` among these; scratch has @p bytes, as
///         token_runs_scratch_bytes says
template <class T, class P>
void embedding_gradient(Stream const& stream, std::int32_t const* tokens, std::int32_t count,
                        int vocabulary, TableRows own, int columns, T const* dy, P* gradient,
                        bool accumulate, std::byte* scratch, std::int64_t bytes) {
  TokenRuns const runs = token_runs(stream, tokens, count, vocabulary, scratch, bytes);
  embedding_gradient(stream, {runs.position, runs.begin + own.first, runs.end + own.first},
                     own.count, columns, dy, gradient, accumulate);
}

}  // namespace tandem::cuda
