// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Kernels on GradientRows: room for more rows, an embedding's gradient, sums of several, their
/// square sum.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/kernels/host/embedding.hpp>
#include <tandem/kernels/host/lanes.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Gives @p rows the @p n rows of the numbers @p row as well, with the values 0 where they are new;
/// place[i] is where row[i] stands then. Without @p keeps what was there is gone.
///
/// Cost:  moves the values of rows behind a new one; one thread.
/// @pre   row is ascending, no two alike; together they are rows.most at most
template <class P>
TANDEM_NOINLINE void open_rows(GradientRows<P> const& rows, std::int64_t n, std::int32_t const* row,
                               std::int32_t* place, bool keeps) {
  std::int64_t const before = keeps ? *rows.count : 0;
  std::int64_t all = before;
  for (std::int64_t i = 0, old = 0; i < n; ++i) {
    while (old < before && rows.row[old] < row[i]) {
      ++old;
    }
    all += old == before || rows.row[old] != row[i] ? 1 : 0;
  }
  // From behind: no row moves to the front, so none is written over before it has moved.
  std::int64_t old = before - 1;
  std::int64_t to = all - 1;
  for (std::int64_t i = n - 1; i >= 0; --i) {
    for (; old >= 0 && rows.row[old] > row[i]; --old, --to) {
      if (old != to) {
        rows.row[to] = rows.row[old];
        std::copy_n(rows.values_of(old), rows.width, rows.values_of(to));
      }
    }
    if (old >= 0 && rows.row[old] == row[i]) {
      if (old != to) {
        std::copy_n(rows.values_of(old), rows.width, rows.values_of(to));
      }
      --old;
    } else {
      std::fill_n(rows.values_of(to), rows.width, P{0});
    }
    rows.row[to] = row[i];
    place[i] = static_cast<std::int32_t>(to--);
  }
  *rows.count = static_cast<std::int32_t>(all);
}

namespace detail {

/// order = the rows 0, …, n - 1 by their index, rows of one in their order; @p other is scratch.
/// Cost: 2048 + n steps of one thread for each 11 bits of the largest index.
inline std::int32_t* sort_by_index(std::int64_t n, int limit, std::int32_t const* index,
                                   std::int32_t* order, std::int32_t* other) {
  constexpr int bits = 11;
  for (std::int64_t i = 0; i < n; ++i) {
    order[i] = static_cast<std::int32_t>(i);
  }
  for (int shift = 0; shift < 31 && (limit - 1) >> shift > 0; shift += bits) {
    std::int64_t first[(1 << bits) + 1] = {};
    auto const digit = [=](std::int32_t i) { return index[i] >> shift & ((1 << bits) - 1); };
    for (std::int64_t i = 0; i < n; ++i) {
      ++first[digit(order[i]) + 1];
    }
    for (int d = 1; d < 1 << bits; ++d) {
      first[d] += first[d - 1];
    }
    for (std::int64_t i = 0; i < n; ++i) {
      other[first[digit(order[i])]++] = order[i];
    }
    std::swap(order, other);
  }
  return order;
}

}  // namespace detail

/// Numbers of scratch of embedding_gradient_rows.
constexpr std::int64_t embedding_rows_scratch(std::int64_t rows) { return 5 * rows + 1; }

/// The rows of dtable = [+=] the sums of dy over the rows of each index: embedding_gradient's bits.
///
/// Shapes: index (n), dy (n, C); dtable as GradientRows of width C.
/// Cost:   reads n C elements and writes as many at most; one thread sorts before. Nothing is of
///         the size of the table.
/// Order:  the rows of an index in order, in Real<T>.
/// @pre    0 <= index[row] < vocabulary; scratch has embedding_rows_scratch(n) numbers
template <class T, class P>
TANDEM_NOINLINE void embedding_gradient_rows(Team& team, std::int64_t n, int vocabulary,
                                             std::int32_t const* index, T const* dy,
                                             GradientRows<P> const& dtable, bool accumulate,
                                             std::int32_t* scratch) {
  std::int32_t* const number = scratch + 2 * n;
  std::int32_t* const place = scratch + 3 * n;
  std::int32_t* const first = scratch + 4 * n;
  std::int32_t const* const order =
      detail::sort_by_index(n, vocabulary, index, scratch, scratch + n);
  std::int64_t unique = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (i == 0 || index[order[i]] != number[unique - 1]) {
      first[unique] = static_cast<std::int32_t>(i);
      number[unique++] = index[order[i]];
    }
  }
  first[unique] = static_cast<std::int32_t>(n);
  open_rows(dtable, unique, number, place, accumulate);
  team.parallel_for(unique, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      detail::sum_rows(order + first[i], first[i + 1] - first[i], 0, dtable.width, dtable.width, dy,
                       dtable.values_of(place[i]), true);
    }
  });
}

/// y = x + y, row by row.
///
/// Cost:  that of open_rows, and of reading x.
/// @pre   place has x.most numbers; the rows of both together are y.most at most
template <class P>
TANDEM_NOINLINE void add_rows(Team& team, GradientRows<P> const& x, GradientRows<P> const& y,
                              std::int32_t* place) {
  open_rows(y, *x.count, x.row, place, true);
  team.parallel_for(*x.count, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      P const* const from = x.values_of(i);
      P* const to = y.values_of(place[i]);
      for_wide<P>(0, y.width, [=](std::int64_t c, auto some) {
        some.store(to + c, some.load(from + c) + some.load(to + c));
      });
    }
  });
}

/// y = x.
/// @pre *x.count <= y.most
template <class P>
TANDEM_NOINLINE void copy_rows(Team& team, GradientRows<P> const& x, GradientRows<P> const& y) {
  std::int64_t const n = *x.count;
  *y.count = *x.count;
  std::copy_n(x.row, n, y.row);
  copy(team, x.value, y.value, n * x.width);
}

namespace detail {

inline constexpr int most_sets_of_rows = 256;
inline constexpr std::int64_t row_block = 256;

/// The sum of those of @p n inputs that are there: one of them, or *block; null: none is. The
/// blocks before it are scratch.
template <class P>
P const* join_rows(P const* const* in, int n, std::int64_t begin, std::int64_t count,
                   P (*block)[row_block]) {
  if (n == 1) {
    return in[0] != nullptr ? in[0] + begin : nullptr;
  }
  int const half = static_cast<int>(std::bit_ceil(static_cast<unsigned>(n)) / 2);
  P const* const left = join_rows(in, half, begin, count, block);
  P const* const right = join_rows(in + half, n - half, begin, count, block - 1);
  if (right == nullptr) {
    return left;
  }
  if (left == nullptr && right != *(block - 1)) {
    return right;
  }
  P* const sum = *block;
  if (left == nullptr) {  // the sum of the right ones is in scratch of theirs
    std::copy_n(right, count, sum);
    return sum;
  }
  for_wide<P>(0, count, [=](std::int64_t c, auto some) {
    some.store(sum + c, some.load(left + c) + some.load(right + c));
  });
  return sum;
}

}  // namespace detail

/// out = sets[0] + … + sets[n - 1].
///
/// Order: reduce_in_tree's of comm/fixed_tree.hpp.
/// Cost:  reads the rows of all, once, and looks each up in each; no allocation.
/// @pre   1 <= n <= 256; out overlaps none and has room for all
template <class P>
TANDEM_NOINLINE void sum_gradient_rows(Team& team, GradientRows<P> const* sets, int n,
                                       GradientRows<P> const& out) {
  std::int32_t next[detail::most_sets_of_rows] = {};
  std::int64_t all = 0;
  for (;; ++all) {
    bool any = false;
    std::int32_t least = 0;
    for (int s = 0; s < n; ++s) {
      if (next[s] < *sets[s].count && (!any || sets[s].row[next[s]] < least)) {
        any = true;
        least = sets[s].row[next[s]];
      }
    }
    if (!any) {
      break;
    }
    for (int s = 0; s < n; ++s) {
      next[s] += next[s] < *sets[s].count && sets[s].row[next[s]] == least ? 1 : 0;
    }
    out.row[all] = least;
  }
  *out.count = static_cast<std::int32_t>(all);
  team.parallel_for(all, [=](std::int64_t begin, std::int64_t end) {
    P blocks[9][detail::row_block];
    P const* in[detail::most_sets_of_rows];
    for (std::int64_t i = begin; i < end; ++i) {
      for (int s = 0; s < n; ++s) {
        std::int32_t const* const row = sets[s].row;
        std::int32_t const* const last = row + *sets[s].count;
        std::int32_t const* const at = std::lower_bound(row, last, out.row[i]);
        in[s] = at != last && *at == out.row[i] ? sets[s].values_of(at - row) : nullptr;
      }
      for (std::int64_t c = 0; c < out.width; c += detail::row_block) {
        std::int64_t const count = std::min(detail::row_block, out.width - c);
        P const* const sum = detail::join_rows(in, n, c, count, &blocks[8]);
        std::copy_n(sum, count, out.values_of(i) + c);
      }
    }
  });
}

/// The sum of the squares, in double: the bits of sum_of_squares() of the dense gradient, of @p all
/// elements, since what is not there adds +0 to sums that are not negative.
///
/// Order: that one's: of its chunks, whose length is a function of @p all; one thread.
template <class P>
[[nodiscard]] TANDEM_NOINLINE double sum_of_squares(GradientRows<P> const& rows, std::int64_t all) {
  constexpr std::int64_t chunks = 256;
  constexpr int lanes = detail::lanes;
  std::int64_t const length = (all + chunks - 1) / chunks;
  double lane[lanes] = {};
  double total = 0;
  std::int64_t chunk = 0;
  auto const close = [&] {
    total += detail::add_lanes(lane);
    std::fill_n(lane, lanes, 0.0);
  };
  for (std::int64_t i = 0; i < *rows.count; ++i) {
    P const* const x = rows.values_of(i);
    std::int64_t const first = std::int64_t{rows.row[i]} * rows.width;
    for (int c = 0; c < rows.width; ++c) {
      std::int64_t const at = first + c;
      if (at >= (chunk + 1) * length) {
        close();
        chunk = at / length;
      }
      double const value = static_cast<double>(x[c]);
      lane[(at - chunk * length) % lanes] += value * value;
    }
  }
  close();
  return total;
}

}  // namespace tandem::host
