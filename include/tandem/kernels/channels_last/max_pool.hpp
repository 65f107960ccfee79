// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The largest element under each position of a window, of channels-last images; padding counts as
/// minus infinity.
///
/// The forward pass saves which cell of the window was the largest, one byte an output where the
/// window has at most 255 cells. The gradient gathers, so that threads may split dx.

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/functors/window_cells.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

/// 16 numbers of cells.
struct WindowCells {
  detail::IntVector v;

  /// @p cell in every lane.
  [[gnu::always_inline]] explicit WindowCells(int cell) : v{cell - detail::IntVector{}} {}

  [[gnu::always_inline]] WindowCells& operator+=(int step) {
    v += step;
    return *this;
  }
  [[gnu::always_inline]] friend Mask operator==(WindowCells const& a, WindowCells const& b) {
    return {a.v == b.v};
  }
  [[gnu::always_inline]] friend WindowCells select(Mask const& mask, WindowCells const& a,
                                                   WindowCells const& b) {
    WindowCells result{0};
    result.v = mask.v ? a.v : b.v;
    return result;
  }
};

namespace detail {

using ByteVector = std::uint8_t __attribute__((vector_size(16)));

// GCC 12 does not find these instructions by itself: its conversions between 8 and 32 bits go lane
// by lane.
#if defined(__AVX512F__) && !defined(__clang__) && \
    __has_builtin(__builtin_ia32_pmovzxbd512_mask) && __has_builtin(__builtin_ia32_pmovdb512_mask)
using SignedBytes = char __attribute__((vector_size(16)));

[[gnu::always_inline]] inline void widen(ByteVector const& bytes, IntVector& ints) {
  ints = __builtin_ia32_pmovzxbd512_mask(std::bit_cast<SignedBytes>(bytes), IntVector{}, 0xFFFF);
}
[[gnu::always_inline]] inline void narrow(IntVector const& ints, ByteVector& bytes) {
  bytes = std::bit_cast<ByteVector>(__builtin_ia32_pmovdb512_mask(ints, SignedBytes{}, 0xFFFF));
}
#else
[[gnu::always_inline]] inline void widen(ByteVector const& bytes, IntVector& ints) {
  auto const halves = __builtin_convertvector(bytes, HalfVector);
  ints = __builtin_convertvector(halves, IntVector);
}
[[gnu::always_inline]] inline void narrow(IntVector const& ints, ByteVector& bytes) {
  auto const halves = __builtin_convertvector(ints, HalfVector);
  bytes = __builtin_convertvector(halves, ByteVector);
}
#endif

}  // namespace detail

[[gnu::always_inline]] inline WindowCells load_cells(std::uint8_t const* p, AllLanes) {
  detail::ByteVector bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  WindowCells cells{0};
  detail::widen(bytes, cells.v);
  return cells;
}
[[gnu::always_inline]] inline WindowCells load_cells(std::int32_t const* p, AllLanes) {
  WindowCells cells{0};
  std::memcpy(&cells.v, p, sizeof cells.v);
  return cells;
}
template <class Cell>
[[gnu::always_inline]] inline WindowCells load_cells(Cell const* p, FirstLanes first) {
  Cell part[lanes] = {};
  for (int i = 0; i < first.n; ++i) {
    part[i] = p[i];
  }
  return load_cells(part, AllLanes{});
}

[[gnu::always_inline]] inline void store_cells(std::uint8_t* p, WindowCells const& cells,
                                               AllLanes) {
  detail::ByteVector bytes;
  detail::narrow(cells.v, bytes);
  std::memcpy(p, &bytes, sizeof bytes);
}
[[gnu::always_inline]] inline void store_cells(std::int32_t* p, WindowCells const& cells,
                                               AllLanes) {
  std::memcpy(p, &cells.v, sizeof cells.v);
}
template <class Cell>
[[gnu::always_inline]] inline void store_cells(Cell* p, WindowCells const& cells,
                                               FirstLanes first) {
  Cell part[lanes];
  store_cells(part, cells, AllLanes{});
  for (int i = 0; i < first.n; ++i) {
    p[i] = part[i];
  }
}

namespace detail {

/// Whether a row of pixels has a NaN.
template <class T>
bool row_has_nan(T const* row, int pixels, std::int64_t stride, int channels) {
  IntVector largest{};  // magnitudes, whose order is that of their bits, and NaNs above infinity
  for (int p = 0; p < pixels; ++p) {
    for_vectors(channels, [&](int c, auto some) {
      Floats const x = some.load(row + p * stride + c);
      IntVector const magnitude = reinterpret_cast<IntVector>(x.v) & 0x7FFFFFFF;
      largest = magnitude > largest ? magnitude : largest;
    });
  }
  bool found = false;
  for (int i = 0; i < lanes; ++i) {
    found = found || largest[i] > 0x7F800000;
  }
  return found;
}

/// One pixel of max_pool_forward: `rows` x columns cells from @p corner on, the first of which has
/// the number first_cell.
template <class T, class Cell, class Columns, class SeesNan>
[[gnu::always_inline]] inline void max_pool_pixel(PoolGeometry const& g, T const* corner, int rows,
                                                  Columns columns, SeesNan, std::int64_t x_stride,
                                                  int first_cell, T* to, std::int64_t y_stride,
                                                  Cell* cells) {
  std::int64_t const row_stride = g.in.width * x_stride;
  for_vectors(g.channels, [&](int c, auto some) {
    Floats best{-std::numeric_limits<float>::infinity()};
    WindowCells where{first_cell};
    T const* from = corner + c;
    for (int u = 0; u < rows; ++u, from += row_stride) {
      for_cells(
          columns, [&](int v) __attribute__((always_inline)) {
            Floats const value = some.load(from + v * x_stride);
            Mask better = value > best;
            if constexpr (SeesNan::value) {
              better.v |= value.v != value.v;
            }
            best = select(better, value, best);
            where = select(better, WindowCells{first_cell + u * g.window.kernel.width + v}, where);
          });
    }
    some.store(to + c, best);
    store_cells(cells + c, where, some);
    will_read(corner + c, (rows - 1) * row_stride + (columns + 1) * x_stride);
    will_write(to + c, 2 * y_stride);
  });
}

}  // namespace detail

/// y = max of x under the window; a tie goes to the first cell in row order, a NaN wins.
///
/// Shapes: x (B, in, C) with x_stride >= C elements from pixel to pixel; y (B, out, C), likewise;
///         cells (B, out, C): the chosen cell of each window, row times the window's width plus
///         column, or the largest Cell (and y = -inf) where a window holds nothing but padding.
/// Saves:  cells, 1 byte an output (Cell = std::uint8_t) or 4 (std::int32_t), until the gradient.
/// Cost:   kernel area reads an output, most of them from a cache.
/// Source: as PyTorch's max_pool2d, also for NaN and ties
/// @pre    Cell = std::uint8_t: cell_fits_byte(g.window)
template <class T, class Cell>
TANDEM_NOINLINE void max_pool_forward(Team& team, PoolGeometry const& g, int batch, T const* x,
                                      std::int64_t x_stride, T* y, std::int64_t y_stride,
                                      Cell* cells) {
  team.parallel_for(std::int64_t{batch} * g.out.height, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t const row_stride = g.in.width * x_stride;
    int looked_at = 0;  // rows of the image
    bool nan = false;   // in one of them
    for (std::int64_t row = begin; row < end; ++row) {
      int const oh = static_cast<int>(row % g.out.height);
      T const* const image = x + row / g.out.height * g.in.height * row_stride;
      CellRange const rows = cells_under(g, oh, 0);
      if (oh == 0 || row == begin) {
        looked_at = rows.first_row;
        nan = false;
      }
      for (; looked_at < rows.last_row; ++looked_at) {
        nan = nan ||
              detail::row_has_nan(image + looked_at * row_stride, g.in.width, x_stride, g.channels);
      }
      for (int ow = 0; ow < g.out.width; ++ow) {
        CellRange const under = cells_under(g, oh, ow);
        int const above = oh * g.window.stride.height - g.window.padding.height;
        int const left = ow * g.window.stride.width - g.window.padding.width;
        int const first_cell =
            (under.first_row - above) * g.window.kernel.width + under.first_column - left;
        std::int64_t const pixel = row * g.out.width + ow;
        auto const work = [&](auto columns, auto sees_nan) __attribute__((always_inline)) {
          detail::max_pool_pixel(
              g, image + under.first_row * row_stride + under.first_column * x_stride,
              under.last_row - under.first_row, columns, sees_nan, x_stride,
              under.count() > 0 ? first_cell : no_cell<Cell>, y + pixel * y_stride, y_stride,
              cells + pixel * g.channels);
        };
        if (nan) {
          work(under.last_column - under.first_column, std::true_type{});
        } else {
          with_columns(under.last_column - under.first_column,
                       [&](auto columns) { work(columns, std::false_type{}); });
        }
      }
    }
  });
}

/// dx = for each cell, the sum of dy over the windows that chose it.
///
/// Shapes: dy (B, out, C) with dy_stride elements from pixel to pixel; cells (B, out, C), from the
///         forward pass; dx (B, in, C) with dx_stride, overwritten.
/// Cost:   writes dx once; reads dy and cells once for each window over a cell, most of them from a
///         cache.
/// Order:  the windows that share a cell are added in row order, in float.
template <class T, class Cell>
TANDEM_NOINLINE void max_pool_gradient(Team& team, PoolGeometry const& g, int batch, T const* dy,
                                       std::int64_t dy_stride, Cell const* cells, T* dx,
                                       std::int64_t dx_stride) {
  team.parallel_for(std::int64_t{batch} * g.in.height, [=](std::int64_t begin, std::int64_t end) {
    Window const& window = g.window;
    for (std::int64_t row = begin; row < end; ++row) {
      int const h = static_cast<int>(row % g.in.height);
      std::int64_t const image = row / g.in.height * g.out.height * g.out.width;
      for (int w = 0; w < g.in.width; ++w) {
        CellRange const over = windows_over(g, h, w);
        int const rows = over.last_row - over.first_row;
        std::int64_t const corner =
            image + std::int64_t{over.first_row} * g.out.width + over.first_column;
        // Which cell of the first window this one is; of the next, stride cells less.
        int const first_cell = (h + window.padding.height - over.first_row * window.stride.height) *
                                   window.kernel.width +
                               w + window.padding.width - over.first_column * window.stride.width;
        T* const to = dx + (row * g.in.width + w) * dx_stride;
        with_columns(over.last_column - over.first_column, [&](auto columns) {
          for_vectors(g.channels, [&](int c, auto some) {
            Floats sum{0.0F};
            T const* from = dy + corner * dy_stride + c;
            Cell const* chosen = cells + corner * g.channels + c;
            int own = first_cell;
            for (int u = 0; u < rows; ++u) {
              for_cells(
                  columns, [&](int v) __attribute__((always_inline)) {
                    sum += select(load_cells(chosen + v * g.channels, some) ==
                                      WindowCells{own - v * window.stride.width},
                                  some.load(from + v * dy_stride), Floats{0.0F});
                  });
              from += g.out.width * dy_stride;
              chosen += g.out.width * std::int64_t{g.channels};
              own -= window.stride.height * window.kernel.width;
            }
            some.store(to + c, sum);
            will_read(dy + corner * dy_stride + c,
                      ((rows - 1) * g.out.width + columns + 1) * dy_stride);
            will_write(to + c, 2 * dx_stride);
          });
        });
      }
    }
  });
}

}  // namespace tandem::host::channels_last
