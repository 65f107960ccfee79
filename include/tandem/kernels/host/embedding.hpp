// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rows of a table picked by indices, and the table's gradient; a table of positions, likewise.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/table_rows.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y[row] = table[index[row]]; -0.0 of rows that are not here, which changes no sum.
///
/// Shapes: index (rows), table (V, C), of which `own` stand at @p table; y (rows, C).
/// Cost:   reads and writes rows C elements.
/// @pre    0 <= index[row] < V
template <class T, class P>
TANDEM_NOINLINE void embedding_forward(Team& team, std::int64_t rows, TableRows own, int channels,
                                       std::int32_t const* index, P const* table, T* y) {
  team.parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      int const at = own.at(index[row]);
      T* const to = y + row * channels;
      if (at == own.count) {
        std::fill_n(to, channels, static_cast<T>(-0.0F));
        continue;
      }
      P const* const from = table + std::int64_t{at} * channels;
      for_wide<T>(0, channels,
                  [=](std::int64_t c, auto some) { some.store(to + c, some.load(from + c)); });
    }
  });
}

/// Numbers of scratch of embedding_gradient.
constexpr std::int64_t embedding_scratch(std::int64_t rows, int vocabulary) {
  return rows + vocabulary + 1;
}

namespace detail {

/// Sorts the rows by where their index stands in the table, keeping their order: those of its row v
/// are order[first[v]] … order[first[v + 1] - 1], and behind them come those that are not here.
/// Cost: rows + V steps of one thread.
inline void sort_rows(std::int64_t rows, TableRows own, std::int32_t const* index,
                      std::int32_t* first, std::int32_t* order) {
  std::fill_n(first, own.count + 1, 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    ++first[own.at(index[row])];
  }
  std::int32_t before = 0;
  for (int v = 0; v <= own.count; ++v) {
    before += first[v];
    first[v] = before;  // the end of v's rows: filling them from behind leaves the beginning
  }
  for (std::int64_t row = rows - 1; row >= 0; --row) {
    order[--first[own.at(index[row])]] = static_cast<std::int32_t>(row);
  }
}

/// The first index v of which v + first[v] >= work: where a share of the work begins.
inline int index_at(std::int32_t const* first, int vocabulary, std::int64_t work) {
  int low = 0;
  int high = vocabulary;
  while (low < high) {
    int const middle = low + (high - low) / 2;
    if (std::int64_t{middle} + first[middle] < work) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// row of table = [+=] the sum of `count` rows of dy, channels [begin, end).
template <class T, class P>
void sum_rows(std::int32_t const* order, std::int32_t count, std::int64_t begin, std::int64_t end,
              int channels, T const* dy, P* table, bool accumulate) {
  constexpr int most = 4;
  constexpr std::int64_t block = most * (std::is_same_v<T, double> ? 1 : channels_last::lanes);
  for (std::int64_t first = begin; first < end; first += block) {
    std::int64_t const last = std::min(first + block, end);
    Wide<T> sum[most] = {wide<T>(0), wide<T>(0), wide<T>(0), wide<T>(0)};
    int n = 0;
    if (accumulate) {
      for_wide<T>(first, last, [&](std::int64_t c, auto some) { sum[n++] = some.load(table + c); });
    }
    for (std::int32_t i = 0; i < count; ++i) {
      T const* const row = dy + std::int64_t{order[i]} * channels;
      n = 0;
      for_wide<T>(first, last, [&](std::int64_t c, auto some) { sum[n++] += some.load(row + c); });
    }
    n = 0;
    for_wide<T>(first, last, [&](std::int64_t c, auto some) { some.store(table + c, sum[n++]); });
  }
}

}  // namespace detail

/// dtable[v] = [+=] the sum of dy over the rows whose index is v; 0 where there is none.
///
/// Shapes: index (rows), dy (rows, C); dtable (V, C), of which `own` stand at @p dtable.
/// Cost:   reads rows C elements and writes V C; one thread counts and sorts the rows before. The
///         team shares out indices that have as many rows together, and where they are few blocks
///         of 64 of their channels, as one of them may then have a good part of the rows.
/// Order:  the rows of an index in order, in Real<T>.
/// @pre    0 <= index[row] < V; scratch has embedding_scratch(rows, own.count) numbers
template <class T, class P>
TANDEM_NOINLINE void embedding_gradient(Team& team, std::int64_t rows, TableRows own, int channels,
                                        std::int32_t const* index, T const* dy, P* dtable,
                                        bool accumulate, std::int32_t* scratch) {
  constexpr std::int64_t shares = 64;
  int const vocabulary = own.count;
  std::int64_t const block = vocabulary < 1024 ? 64 : channels;
  std::int32_t* const order = scratch;
  std::int32_t* const first = scratch + rows;
  detail::sort_rows(rows, own, index, first, order);
  std::int64_t const here = first[vocabulary];
  std::int64_t const blocks = (channels + block - 1) / block;
  team.parallel_for(shares * blocks, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      std::int64_t const share = task / blocks;
      std::int64_t const c = task % blocks * block;
      auto const work = [=](std::int64_t n) { return (here + vocabulary) * n / shares; };
      int const last =
          share + 1 < shares ? detail::index_at(first, vocabulary, work(share + 1)) : vocabulary;
      for (int v = detail::index_at(first, vocabulary, work(share)); v < last; ++v) {
        detail::sum_rows(order + first[v], first[v + 1] - first[v], c,
                         std::min<std::int64_t>(c + block, channels), channels, dy,
                         dtable + std::int64_t{v} * channels, accumulate);
      }
    }
  });
}

/// y[sample, t] = x[sample, t] + table[t].
///
/// Shapes: x (B, time, C), table (T, C), time <= T; y (B, time, C), which may be x.
/// Cost:   reads and writes B time C elements.
template <class T, class P>
TANDEM_NOINLINE void positions_forward(Team& team, int batch, int time, int channels, T const* x,
                                       P const* table, T* y) {
  team.parallel_for(std::int64_t{batch} * time, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T const* const in = x + row * channels;
      P const* const add = table + row % time * channels;
      T* const out = y + row * channels;
      for_wide<T>(0, channels, [=](std::int64_t c, auto some) {
        some.store(out + c, some.load(in + c) + some.load(add + c));
      });
    }
  });
}

/// dtable[t] = [+=] the sum of dy[sample, t] over the samples; 0 where t >= time.
///
/// Shapes: dy (B, time, C); dtable (T, C), time <= T.
/// Cost:   reads B time C elements and writes T C.
/// Order:  the samples in order, in Real<T>.
template <class T, class P>
TANDEM_NOINLINE void positions_gradient(Team& team, int batch, int time, int longest, int channels,
                                        T const* dy, P* dtable, bool accumulate) {
  std::int64_t const size = std::int64_t{time} * channels;
  for_wide<T>(team, size, [=](std::int64_t i, auto some) {
    Wide<T> sum = accumulate ? some.load(dtable + i) : wide<T>(0);
    for (int sample = 0; sample < batch; ++sample) {
      sum += some.load(dy + sample * size + i);
    }
    some.store(dtable + i, sum);
  });
  if (!accumulate) {
    std::fill(dtable + size, dtable + std::int64_t{longest} * channels, P{0});
  }
}

}  // namespace tandem::host
