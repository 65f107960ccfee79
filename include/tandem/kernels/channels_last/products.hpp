// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Products of small matrices in float that lie in one core's cache, for attention: register tiles
/// on Floats, by one thread; and the transposed copies that they read.
///
/// The left matrix is read number by number, at any strides, so that its transpose costs no copy;
/// the right one in whole vectors of a row.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/channels_last/vectors.hpp>

namespace tandem::host::channels_last {

namespace detail {

/// f(0), …, f(n - 1) of constants: a loop that is no loop at any level of optimisation, so that
/// what it indexes stays in registers.
template <class Function, int... I>
[[gnu::always_inline]] inline void unroll(Function const& f, std::integer_sequence<int, I...>) {
  (f(std::integral_constant<int, I>{}), ...);
}
template <int N, class Function>
[[gnu::always_inline]] inline void unroll(Function const& f) {
  detail::unroll(f, std::make_integer_sequence<int, N>{});
}

}  // namespace detail

/// Rows of the largest register tile; and its vectors, each of one register: with AVX-512 there are
/// 32 of them, of which 24 are sums, else 16.
inline constexpr int product_rows = 6;
#if defined(__AVX512F__)
inline constexpr int register_bytes = 64;
inline constexpr int product_registers = 4;
#elif defined(__AVX__)
inline constexpr int register_bytes = 32;
inline constexpr int product_registers = 2;
#else
inline constexpr int register_bytes = 16;
inline constexpr int product_registers = 2;
#endif

/// The left matrix of a product: element (i, p) stands at first[i * row + p * step].
struct LeftMatrix {
  float const* first;
  std::int64_t row;
  std::int64_t step;

  [[nodiscard]] LeftMatrix from(std::int64_t i, std::int64_t p) const {
    return {first + i * row + p * step, row, step};
  }
};

/// A matrix whose rows are whole vectors; `stride` numbers from one row to the next.
template <class T>
struct RowMatrix {
  T* first;
  std::int64_t stride;

  [[nodiscard]] RowMatrix from(std::int64_t i, std::int64_t column = 0) const {
    return {first + i * stride + column, stride};
  }
};

namespace detail {

// Not of Floats: g++ 12 keeps one that takes several registers in memory (AVX2, backward: 9 against
// 45 Gflop/s).
using Register = float __attribute__((vector_size(register_bytes)));
inline constexpr int register_lanes = register_bytes / static_cast<int>(sizeof(float));

template <int Rows, int Registers>
TANDEM_NOINLINE void multiply_tile(std::int64_t depth, LeftMatrix a, RowMatrix<float const> b,
                                   RowMatrix<float> c, bool accumulate) {
  Register total[static_cast<std::size_t>(Rows * Registers)];
  unroll<Rows * Registers>([&](auto n) {
    total[n] = Register{};
    if (accumulate) {
      std::memcpy(&total[n], c.first + n / Registers * c.stride + n % Registers * register_lanes,
                  sizeof(Register));
    }
  });
  float const* left = a.first;
  float const* right = b.first;
  for (std::int64_t p = 0; p < depth; ++p) {
    Register row[static_cast<std::size_t>(Registers)];
    unroll<Registers>(
        [&](auto v) { std::memcpy(&row[v], right + v * register_lanes, sizeof(Register)); });
    unroll<Rows>([&](auto i) {
      Register const factor = left[i * a.row] - Register{};
      unroll<Registers>(
          [&](auto v) { total[i * Registers + v] = factor * row[v] + total[i * Registers + v]; });
    });
    left += a.step;
    right += b.stride;
  }
  unroll<Rows * Registers>([&](auto n) {
    std::memcpy(c.first + n / Registers * c.stride + n % Registers * register_lanes, &total[n],
                sizeof(Register));
  });
}

template <int Rows>
[[gnu::always_inline]] inline void multiply_rows(std::int64_t depth, LeftMatrix const& a,
                                                 RowMatrix<float const> b, RowMatrix<float> c,
                                                 std::int64_t columns, bool accumulate) {
  std::int64_t at = 0;
  for (; at + product_registers * register_lanes <= columns;
       at += product_registers * register_lanes) {
    multiply_tile<Rows, product_registers>(depth, a, b.from(0, at), c.from(0, at), accumulate);
  }
  if constexpr (product_registers > 2) {
    for (; at + 2 * register_lanes <= columns; at += 2 * register_lanes) {
      multiply_tile<Rows, 2>(depth, a, b.from(0, at), c.from(0, at), accumulate);
    }
  }
  for (; at < columns; at += register_lanes) {
    multiply_tile<Rows, 1>(depth, a, b.from(0, at), c.from(0, at), accumulate);
  }
}

}  // namespace detail

/// c = [+=] a b.
///
/// Shapes: a (rows, depth), b (depth, columns), c (rows, columns).
/// Order:  each element one sum in the order of the depth, fused where the machine can, from 0 or
///         from what c holds; its bits depend on its row of a and its column of b only.
/// @pre    columns is a multiple of 16
inline void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                     LeftMatrix const& a, RowMatrix<float const> b, RowMatrix<float> c,
                     bool accumulate) {
  std::int64_t i = 0;
  for (; i + product_rows <= rows; i += product_rows) {
    detail::multiply_rows<product_rows>(depth, a.from(i, 0), b, c.from(i), columns, accumulate);
  }
  for (; i + 4 <= rows; i += 4) {
    detail::multiply_rows<4>(depth, a.from(i, 0), b, c.from(i), columns, accumulate);
  }
  for (; i + 2 <= rows; i += 2) {
    detail::multiply_rows<2>(depth, a.from(i, 0), b, c.from(i), columns, accumulate);
  }
  for (; i < rows; ++i) {
    detail::multiply_rows<1>(depth, a.from(i, 0), b, c.from(i), columns, accumulate);
  }
}

/// Rows that are asked for ahead of their copy: they are too far apart for the processor to see
/// that it walks through memory.
inline constexpr std::int64_t rows_ahead_of_copy = 8;

/// Columns of one panel of a transposed copy.
inline constexpr std::int64_t panel_columns = 64;

namespace detail {

/// 16 rows of 16 become columns, in four rounds of zips.
[[gnu::always_inline]] inline void transpose_square(Floats (&square)[lanes]) {
  for (int round = 0; round < 4; ++round) {
    Floats zipped[lanes];
    unroll<lanes / 2>([&](auto i) {
      zipped[2 * i].v = __builtin_shufflevector(square[i].v, square[i + lanes / 2].v, 0, 16, 1, 17,
                                                2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      zipped[2 * i + 1].v =
          __builtin_shufflevector(square[i].v, square[i + lanes / 2].v, 8, 24, 9, 25, 10, 26, 11,
                                  27, 12, 28, 13, 29, 14, 30, 15, 31);
    });
    unroll<lanes>([&](auto i) { square[i] = zipped[i]; });
  }
}

}  // namespace detail

/// Panels of 64 columns of the transpose: element (d, j) of x is to[j / 64][d][j % 64], zeros in
/// the columns from @p rows on.
///
/// Shapes: x (rows, width) of float or BFloat16, its rows @p stride apart; to (ceil(rows / 64),
///         width, 64).
template <class T>
TANDEM_NOINLINE void pack_transposed(std::int64_t rows, int width, T const* x, std::int64_t stride,
                                     float* to) {
  for (std::int64_t j = 0; j < (rows + panel_columns - 1) / panel_columns * panel_columns;
       j += lanes) {
    float* const panel = to + j / panel_columns * width * panel_columns + j % panel_columns;
    std::int64_t const own = rows - j;
    for (int d = 0; d < width; d += lanes) {
      int const wide = width - d < lanes ? width - d : lanes;
      Floats square[lanes];
      detail::unroll<lanes>([&](auto i) {
        square[i] = Floats{0.0F};
        if (i < own) {
          T const* const from = x + (j + i) * stride + d;
          will_read(from, lanes * stride);
          square[i] = wide == lanes ? load(from) : load(from, wide);
        }
      });
      detail::transpose_square(square);
      for (int e = 0; e < wide; ++e) {
        store(panel + (d + e) * panel_columns, square[e]);
      }
    }
  }
}

/// to[j] = x[j], in float, zeros behind the width up to a whole vector.
///
/// Shapes: x (rows, width), its rows @p stride apart; to (rows, the width rounded up to 16).
template <class T>
TANDEM_NOINLINE void pack_rows(std::int64_t rows, int width, T const* x, std::int64_t stride,
                               float* to) {
  for (std::int64_t j = 0; j < rows; ++j) {
    for (int d = 0; d < width; d += lanes, to += lanes) {
      T const* const from = x + j * stride + d;
      will_read(from, rows_ahead_of_copy * stride);
      store(to, width - d >= lanes ? load(from) : load(from, width - d));
    }
  }
}

/// The inverse: to[j] = factor[j] x[j], rounded to T.
template <class T, class Factor>
[[gnu::always_inline]] inline void unpack_rows(std::int64_t rows, int width, float const* x, T* to,
                                               std::int64_t stride, Factor const& factor) {
  for (std::int64_t j = 0; j < rows; ++j) {
    Floats const scale{factor(j)};
    for (int d = 0; d < width; d += lanes, x += lanes) {
      T* const at = to + j * stride + d;
      if (width - d >= lanes) {
        store(at, load(x) * scale);
      } else {
        store(at, load(x) * scale, width - d);
      }
    }
  }
}

}  // namespace tandem::host::channels_last
