// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which rows, chunks and summands a thread has of GradientRows on Cuda: functors and arithmetic,
/// without a kernel. No CUDA header is needed.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/kernels/cuda/pack.hpp>

namespace tandem::cuda {

/// Several GradientRows with room for as many rows of one width: one anywhere, and others, of which
/// each lies `apart` bytes behind the one before it.
template <class P>
struct RowSets {
  GradientRows<P> first{};
  GradientRows<P> others{};  ///< the first of them
  std::int64_t apart = 0;
  int count = 0;

  [[nodiscard]] TANDEM_HOST_DEVICE std::int32_t rows(int set) const {
    return *(set == 0 ? first.count : others.count + offset(set, sizeof(std::int32_t)));
  }
  [[nodiscard]] TANDEM_HOST_DEVICE std::int32_t const* row(int set) const {
    return set == 0 ? first.row : others.row + offset(set, sizeof(std::int32_t));
  }
  [[nodiscard]] TANDEM_HOST_DEVICE P const* value(int set) const {
    return set == 0 ? first.value : others.value + offset(set, sizeof(P));
  }

 private:
  [[nodiscard]] TANDEM_HOST_DEVICE std::int64_t offset(int set, std::size_t size) const {
    return (set - 1) * apart / static_cast<std::int64_t>(size);
  }
};

/// One list of numbers of rows: those of a pass, and behind them the rows of each of RowSets, as
/// many as there may be; `limit` in places of rows that there are not. And 0, 1, 2, …
template <class P>
struct RowKeys {
  std::int32_t const* index;  ///< (indices)
  std::int64_t indices;
  RowSets<P> sets;
  std::uint32_t limit;
  std::uint32_t* key;
  std::int32_t* counted;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    counted[i] = static_cast<std::int32_t>(i);
    if (i < indices) {
      key[i] = static_cast<std::uint32_t>(index[i]);
      return;
    }
    std::int64_t const most = sets.first.most;
    auto const set = static_cast<int>((i - indices) / most);
    std::int64_t const at = (i - indices) % most;
    key[i] = at < sets.rows(set) ? static_cast<std::uint32_t>(sets.row(set)[at]) : limit;
  }
};

/// The different ones among n sorted RowKeys become the rows; begin[count] ends the last one's run.
///
/// Shapes: unique (*found), begin (*found), of room for n + 1.
struct OpenRows {
  std::uint32_t const* unique;
  std::int32_t const* found;
  std::uint32_t limit;
  std::int32_t n;
  std::int32_t* begin;
  std::int32_t* row;
  std::int32_t* count;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int32_t const all = *found;
    bool const pads = unique[all - 1] == limit;  // the last ones are no rows
    std::int32_t const rows = all - (pads ? 1 : 0);
    if (i < rows) {
      row[i] = static_cast<std::int32_t>(unique[i]);
    }
    if (i == 0) {
      *count = rows;
      if (!pads) {
        begin[all] = n;
      }
    }
  }
};

/// Parts of a tree that wait for their siblings, one a level. Not an array, so that each stays in
/// registers.
template <class P, int N, int Levels>
struct WaitingParts {
  WaitingParts<P, N, Levels - 1> below{};
  Pack<P, N> own{};
  bool waits = false;

  TANDEM_HOST_DEVICE void put(int level, Pack<P, N> const& part) {
    if (level == Levels - 1) {
      own = part;
      waits = true;
    } else {
      below.put(level, part);
    }
  }
  /// sum = what waits below @p level, the highest first, + sum.
  TANDEM_HOST_DEVICE void join(int level, Pack<P, N>& sum) {
    below.join(level, sum);
    if (waits && Levels - 1 < level) {
      for (int v = 0; v < N; ++v) {
        sum.value[v] = own.value[v] + sum.value[v];
      }
      waits = false;
    }
  }
};

template <class P, int N>
struct WaitingParts<P, N, 0> {
  TANDEM_HOST_DEVICE void put(int /*level*/, Pack<P, N> const& /*part*/) {}
  TANDEM_HOST_DEVICE void join(int /*level*/, Pack<P, N>& /*sum*/) {}
};

/// A sum over some of the leaves of reduce_in_tree's tree (comm/fixed_tree.hpp), which come in
/// their order; those that do not are 0.
///
/// Two leaves meet where the highest bit in which their numbers differ says. So a part waits for
/// its sibling at that bit.
/// @tparam Levels  at most 2^Levels leaves
template <class P, int N, int Levels>
struct TreeOfSome {
  Pack<P, N> sum{};
  WaitingParts<P, N, Levels> waiting{};
  int leaf = -1;  ///< the last one

  TANDEM_HOST_DEVICE void add(int next, Pack<P, N> const& value) {
    if (leaf >= 0) {
      int level = 0;
      for (int l = 1; l < Levels; ++l) {
        level = ((leaf ^ next) >> l) != 0 ? l : level;
      }
      waiting.join(level, sum);
      waiting.put(level, sum);
    }
    sum = value;
    leaf = next;
  }
  /// At the end.
  TANDEM_HOST_DEVICE void join() { waiting.join(Levels, sum); }
};

/// Numbers @p first to @p first + N - 1 of a row of the sum of RowSets, which stands at those
/// positions among the RowKeys.
template <int N, int Levels, class P>
TANDEM_HOST_DEVICE Pack<P, N> sum_row(RowSets<P> const& sets, std::int32_t const* position,
                                      std::int32_t begin, std::int32_t end, int first) {
  TreeOfSome<P, N, Levels> tree;
  auto const most = static_cast<std::int32_t>(sets.first.most);
  for (std::int32_t i = begin; i < end; ++i) {
    std::int32_t const set = position[i] / most;
    std::int64_t const at = position[i] % most * std::int64_t{sets.first.width};
    tree.add(set, load_pack<N>(sets.value(set) + at + first));
  }
  tree.join();
  return tree.sum;
}

/// A dense gradient's chunks of `length` elements, of which rows have some: each chunk is the
/// business of the first row in it.
template <class P>
struct RowChunks {
  std::int32_t const* row;
  std::int32_t count;
  P const* value;
  int width;
  std::int64_t length;

  [[nodiscard]] TANDEM_HOST_DEVICE std::int64_t begin(std::int32_t i) const {
    return std::int64_t{row[i]} * width;
  }
  /// Row @p i speaks for chunks [first(i), last(i)).
  [[nodiscard]] TANDEM_HOST_DEVICE std::int64_t first(std::int32_t i) const {
    std::int64_t const own = begin(i) / length;
    bool const shared = i > 0 && (begin(i - 1) + width - 1) / length == own;
    return own + (shared ? 1 : 0);
  }
  [[nodiscard]] TANDEM_HOST_DEVICE std::int64_t last(std::int32_t i) const {
    return (begin(i) + width - 1) / length + 1;
  }
  /// The square sum of what lane @p lane of @p lanes has of a chunk: every lanes-th element. The
  /// order is that of the dense gradient, and +0 is left out.
  /// @param i  the chunk's row
  [[nodiscard]] TANDEM_HOST_DEVICE double squares(std::int32_t i, std::int64_t chunk, int lane,
                                                  int lanes) const {
    double sum = 0;
    std::int64_t const from = chunk * length;
    for (; i < count && begin(i) < from + length; ++i) {
      std::int64_t const all = begin(i) + width;
      std::int64_t const end = all < from + length ? all : from + length;
      std::int64_t e = begin(i) > from ? begin(i) : from;
      e += (lane - (e - from) % lanes + lanes) % lanes;
      for (; e < end; e += lanes) {
        double const g = static_cast<double>(value[i * std::int64_t{width} + e - begin(i)]);
        sum += g * g;
      }
    }
    return sum;
  }
};

}  // namespace tandem::cuda
