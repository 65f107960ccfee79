// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Winograd: a 3×3 convolution of stride 1 by Winograd's method F(4×4, 3×3), in fp32.
///
/// A tile of 4×4 outputs takes 36 multiplications for each pair of channels, not 144: tiles are
/// transformed to 6×6 numbers, each of which is one matrix product over all tiles. The caller
/// brings the matrix product. Source: Lavin, Gray, arXiv:1509.09308.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/channels_last/channel_vectors.hpp>
#include <tandem/kernels/channels_last/vectors.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host::channels_last {

/// Whether Winograd can compute the convolution, and is faster than the plain sums.
constexpr bool suits_winograd(ConvolutionGeometry const& g) {
  return g.groups == 1 && g.in_channels >= 16 && g.out_channels >= 16 &&
         g.window.kernel == Extent2d{3, 3} && g.window.stride == Extent2d{1, 1} &&
         g.window.dilation == Extent2d{1, 1} && g.window.padding.height <= 2 &&
         g.window.padding.width <= 2 && g.out.height >= 4 && g.out.width >= 4;
}

namespace detail {

inline constexpr int winograd_in = 6;   // rows of a transformed tile
inline constexpr int winograd_out = 4;  // rows of a tile of outputs
inline constexpr int winograd_products = winograd_in * winograd_in;

// The points at which polynomials are multiplied: 0, a, -a, b, -b and infinity. These round less
// than 1 and 2 do. A divisor is the product of a point's differences from the others.
inline constexpr float winograd_a = 0.625F;
inline constexpr float winograd_b = 1.5F;
inline constexpr float winograd_a2 = winograd_a * winograd_a;
inline constexpr float winograd_b2 = winograd_b * winograd_b;
inline constexpr float winograd_divisor_0 = winograd_a2 * winograd_b2;
inline constexpr float winograd_divisor_a = 2 * winograd_a2 * (winograd_a2 - winograd_b2);
inline constexpr float winograd_divisor_b = 2 * winograd_b2 * (winograd_b2 - winograd_a2);

/// factor * value.
[[gnu::always_inline]] inline Floats scaled(float factor, Floats const& value) {
  return Floats{factor} * value;
}

/// Six numbers at d[0], d[step], … to Bᵀd: a row or column of a tile of inputs.
[[gnu::always_inline]] inline void winograd_input(Floats const* d, int step, Floats* to,
                                                  int to_step) {
  Floats const even_a = d[4 * step] - scaled(winograd_b2, d[2 * step]);
  Floats const odd_a = scaled(winograd_a, d[3 * step] - scaled(winograd_b2, d[step]));
  Floats const even_b = d[4 * step] - scaled(winograd_a2, d[2 * step]);
  Floats const odd_b = scaled(winograd_b, d[3 * step] - scaled(winograd_a2, d[step]));
  auto const last = [&](int i) {
    return scaled(winograd_divisor_0, d[i * step]) -
           scaled(winograd_a2 + winograd_b2, d[(i + 2) * step]) + d[(i + 4) * step];
  };
  to[0] = last(0);
  to[to_step] = even_a + odd_a;
  to[2 * to_step] = even_a - odd_a;
  to[3 * to_step] = even_b + odd_b;
  to[4 * to_step] = even_b - odd_b;
  to[5 * to_step] = last(1);
}

/// Six numbers to the four of Aᵀm: a row or column of a tile of outputs.
[[gnu::always_inline]] inline void winograd_output(Floats const* m, int step, Floats* to,
                                                   int to_step) {
  Floats const even_a = m[step] + m[2 * step];
  Floats const even_b = m[3 * step] + m[4 * step];
  Floats const odd_a = scaled(winograd_a, m[step] - m[2 * step]);
  Floats const odd_b = scaled(winograd_b, m[3 * step] - m[4 * step]);
  to[0] = m[0] + even_a + even_b;
  to[to_step] = odd_a + odd_b;
  to[2 * to_step] = scaled(winograd_a2, even_a) + scaled(winograd_b2, even_b);
  to[3 * to_step] = scaled(winograd_a2, odd_a) + scaled(winograd_b2, odd_b) + m[5 * step];
}

/// Four numbers to the six of A y: the transpose of winograd_output().
[[gnu::always_inline]] inline void winograd_output_gradient(Floats const* y, int step, Floats* to,
                                                            int to_step) {
  Floats const even_a = y[0] + scaled(winograd_a2, y[2 * step]);
  Floats const even_b = y[0] + scaled(winograd_b2, y[2 * step]);
  Floats const odd_a = scaled(winograd_a, y[step] + scaled(winograd_a2, y[3 * step]));
  Floats const odd_b = scaled(winograd_b, y[step] + scaled(winograd_b2, y[3 * step]));
  to[0] = y[0];
  to[to_step] = even_a + odd_a;
  to[2 * to_step] = even_a - odd_a;
  to[3 * to_step] = even_b + odd_b;
  to[4 * to_step] = even_b - odd_b;
  to[5 * to_step] = y[3 * step];
}

/// Three numbers to the six of G g: a row or column of a kernel.
[[gnu::always_inline]] inline void winograd_weight(Floats const* g, int step, Floats* to,
                                                   int to_step) {
  Floats const even_a = scaled(1 / winograd_divisor_a, g[0] + scaled(winograd_a2, g[2 * step]));
  Floats const even_b = scaled(1 / winograd_divisor_b, g[0] + scaled(winograd_b2, g[2 * step]));
  Floats const odd_a = scaled(winograd_a / winograd_divisor_a, g[step]);
  Floats const odd_b = scaled(winograd_b / winograd_divisor_b, g[step]);
  to[0] = scaled(1 / winograd_divisor_0, g[0]);
  to[to_step] = even_a + odd_a;
  to[2 * to_step] = even_a - odd_a;
  to[3 * to_step] = even_b + odd_b;
  to[4 * to_step] = even_b - odd_b;
  to[5 * to_step] = g[2 * step];
}

/// Six numbers to the three of Gᵀu: the transpose of winograd_weight().
[[gnu::always_inline]] inline void winograd_weight_gradient(Floats const* u, int step, Floats* to,
                                                            int to_step) {
  Floats const even_a = scaled(1 / winograd_divisor_a, u[step] + u[2 * step]);
  Floats const even_b = scaled(1 / winograd_divisor_b, u[3 * step] + u[4 * step]);
  Floats const odd_a = scaled(winograd_a / winograd_divisor_a, u[step] - u[2 * step]);
  Floats const odd_b = scaled(winograd_b / winograd_divisor_b, u[3 * step] - u[4 * step]);
  to[0] = scaled(1 / winograd_divisor_0, u[0]) + even_a + even_b;
  to[to_step] = odd_a + odd_b;
  to[2 * to_step] = scaled(winograd_a2, even_a) + scaled(winograd_b2, even_b) + u[5 * step];
}

/// f(0) to f(Count - 1), at most six: no loop even with -O2, so that registers hold the numbers.
template <int Count, class Function>
[[gnu::always_inline]] inline void winograd_each(Function const& f) {
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)  // clang does so by itself
#pragma GCC unroll 6
#endif
  for (int i = 0; i < Count; ++i) {
    f(i);
  }
}

/// Transforms the columns, then the rows, of a square of From × From numbers, from(i, j), to
/// To × To, each for one to(i, j, number).
template <int From, int To, class Source, class Transform, class Target>
[[gnu::always_inline]] inline void winograd_both(Source const& from, Transform const& transform,
                                                 Target const& to) {
  Floats half[winograd_products];
  for (int j = 0; j < From; ++j) {
    Floats column[static_cast<std::size_t>(From)];
    winograd_each<From>([&](int i) __attribute__((always_inline)) { column[i] = from(i, j); });
    transform(column, 1, half + j, From);
  }
  for (int i = 0; i < To; ++i) {
    Floats row[static_cast<std::size_t>(To)];
    transform(half + i * From, 1, row, 1);
    winograd_each<To>([&](int j) __attribute__((always_inline)) { to(i, j, row[j]); });
  }
}

}  // namespace detail

/// The three passes of one convolution.
///
/// Shapes: x (B, H, W, In), y (B, H', W', Out), channels-last; weights (Out, In, 3, 3); transformed
///         weights (36, In, Out), for the input gradient (36, Out, In), with 64 bytes between
///         matrices: 36 numbers of a tile at distances of 4 KB would share one set of a cache.
/// Cost:   B ceil(H' / 4) ceil(W' / 4) · 36 In Out multiply-accumulates a pass, a quarter of the
///         plain sum's; transformed weights are 4 times as large as the weights.
/// Order:  fixed by the shape and the number of threads.
///
/// `product(m, n, k, a, a_transposed, b, accumulate, c)` is C (m, n) = or += A (m, k) B (k, n) on
/// the calling thread alone, all of them dense; with a_transposed A lies as (k, m).
/// @pre suits_winograd(geometry)
class Winograd {
 public:
  Winograd() = default;
  Winograd(ConvolutionGeometry const& geometry, int threads)
      : geometry_{geometry}, threads_{threads} {}

  /// Floats of the transformed weights of one direction.
  [[nodiscard]] std::int64_t weight_floats() const {
    return products * apart(std::int64_t{geometry_.in_channels} * geometry_.out_channels);
  }

  /// Floats that any pass needs as scratch, for any batch.
  [[nodiscard]] std::int64_t scratch_floats() const {
    std::int64_t const in = geometry_.in_channels;
    std::int64_t const out = geometry_.out_channels;
    return std::max(
        threads_ * products * (apart(most_tiles * in) + apart(most_tiles * out)),
        products * (apart(summed_tiles * in) + apart(summed_tiles * out)) + weight_floats());
  }

  /// Transforms the weights for forward().
  TANDEM_NOINLINE void pack_forward(Team& team, float const* weights, float* to) const {
    std::int64_t const in = geometry_.in_channels;
    pack(team, weights, geometry_.in_channels, 9, geometry_.out_channels, 9 * in, false, to);
  }
  /// Transforms the weights, turned by 180 degrees, for input_gradient().
  TANDEM_NOINLINE void pack_input_gradient(Team& team, float const* weights, float* to) const {
    std::int64_t const in = geometry_.in_channels;
    pack(team, weights, geometry_.out_channels, 9 * in, geometry_.in_channels, 9, true, to);
  }

  /// Writes y. @param bias  (Out); null without one
  template <class Product>
  void forward(Team& team, Product const& product, std::int64_t batch, float const* x,
               float const* packed, float const* bias, float* y, float* scratch) const {
    convolve(team, product, batch, inputs(), outputs(), geometry_.window.padding, x, packed, bias,
             y, scratch);
  }

  /// Writes dx.
  template <class Product>
  void input_gradient(Team& team, Product const& product, std::int64_t batch, float const* dy,
                      float const* packed, float* dx, float* scratch) const {
    Extent2d const padding = geometry_.window.padding;
    convolve(team, product, batch, outputs(), inputs(), {2 - padding.height, 2 - padding.width}, dy,
             packed, nullptr, dx, scratch);
  }

  /// Writes, or adds to, the gradient of the weights.
  template <class Product>
  void weight_gradient(Team& team, Product const& product, std::int64_t batch, float const* x,
                       float const* dy, float* gradient, bool accumulate, float* scratch) const {
    Images const in = inputs();
    Images const out = outputs();
    std::int64_t const tiles = batch * out.tiles();
    float* const transformed_x = scratch;
    float* const transformed_dy = transformed_x + products * apart(summed_tiles * in.channels);
    float* const sums = transformed_dy + products * apart(summed_tiles * out.channels);
    std::int64_t const sums_stride = apart(std::int64_t{in.channels} * out.channels);
    for (std::int64_t first = 0; first < tiles; first += summed_tiles) {
      std::int64_t const count = std::min(summed_tiles, tiles - first);
      std::int64_t const x_stride = apart(count * in.channels);
      std::int64_t const dy_stride = apart(count * out.channels);
      team.parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
          Tile const tile = out.tile(first + t);
          enter(in, tile, geometry_.window.padding, x, transformed_x + t * in.channels, x_stride);
          enter_gradient(out, tile, dy, transformed_dy + t * out.channels, dy_stride);
        }
      });
      team.parallel_for(products, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          product(out.channels, in.channels, count, transformed_dy + p * dy_stride, true,
                  transformed_x + p * x_stride, first > 0, sums + p * sums_stride);
        }
      });
    }
    leave_weights(team, sums, gradient, accumulate);
  }

 private:
  static constexpr std::int64_t products = detail::winograd_products;
  static constexpr std::int64_t tile_outputs = detail::winograd_out * detail::winograd_out;
  /// Tiles that one thread transforms, multiplies and transforms back: their numbers stay in cache.
  static constexpr std::int64_t most_tiles = 64;
  /// Tiles whose products are added to the gradient at once.
  static constexpr std::int64_t summed_tiles = 256;

  /// From the first of @p numbers of a matrix to the next matrix.
  static constexpr std::int64_t apart(std::int64_t numbers) { return numbers + lanes; }

  /// Where a tile's first output is.
  struct Tile {
    std::int64_t sample;
    int row;
    int column;
  };

  struct Images {
    int channels;
    Extent2d size;

    [[nodiscard]] int tile_columns() const {
      return (size.width + detail::winograd_out - 1) / detail::winograd_out;
    }
    [[nodiscard]] int tiles() const {
      return (size.height + detail::winograd_out - 1) / detail::winograd_out * tile_columns();
    }
    [[nodiscard]] Tile tile(std::int64_t number) const {
      int const place = static_cast<int>(number % tiles());
      return {number / tiles(), place / tile_columns() * detail::winograd_out,
              place % tile_columns() * detail::winograd_out};
    }
    [[nodiscard]] bool contains(int row, int column) const {
      return row >= 0 && row < size.height && column >= 0 && column < size.width;
    }
    [[nodiscard]] std::int64_t at(std::int64_t sample, int row, int column) const {
      return ((sample * size.height + row) * size.width + column) * channels;
    }
  };

  [[nodiscard]] Images inputs() const { return {geometry_.in_channels, geometry_.in}; }
  [[nodiscard]] Images outputs() const { return {geometry_.out_channels, geometry_.out}; }

  /// The 6×6 inputs of a tile to Bᵀ d B, number p at to + p * stride.
  TANDEM_ONCE static void enter(Images in, Tile tile, Extent2d padding, float const* x, float* to,
                                std::int64_t stride);

  /// The 4×4 gradients of a tile's outputs to A dy Aᵀ.
  TANDEM_ONCE static void enter_gradient(Images out, Tile tile, float const* dy, float* to,
                                         std::int64_t stride);

  /// The 36 products of a tile to its 4×4 outputs, and the bias on each.
  TANDEM_ONCE static void leave(Images out, Tile tile, float const* from, std::int64_t stride,
                                float const* bias, float* y);

  template <class Product>
  void convolve(Team& team, Product const& product, std::int64_t batch, Images const& in,
                Images const& out, Extent2d padding, float const* x, float const* packed,
                float const* bias, float* y, float* scratch) const {
    std::int64_t const tiles = batch * out.tiles();
    std::int64_t const members = team.size();
    std::int64_t const rounds = (tiles + members * most_tiles - 1) / (members * most_tiles);
    std::int64_t const each = (tiles + members * rounds - 1) / (members * rounds);
    std::int64_t const weight_stride = apart(std::int64_t{in.channels} * out.channels);
    team.parallel_for(members, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t member = begin; member < end; ++member) {
        float* const v =
            scratch + member * products *
                          (apart(most_tiles * in.channels) + apart(most_tiles * out.channels));
        float* const w = v + products * apart(most_tiles * in.channels);
        for (std::int64_t round = 0; round < rounds; ++round) {
          std::int64_t const first = (member * rounds + round) * each;
          std::int64_t const count = std::min(each, tiles - first);
          std::int64_t const v_stride = apart(count * in.channels);
          std::int64_t const w_stride = apart(count * out.channels);
          for (std::int64_t t = 0; t < count; ++t) {
            enter(in, out.tile(first + t), padding, x, v + t * in.channels, v_stride);
          }
          for (std::int64_t p = 0; p < products && count > 0; ++p) {
            product(count, out.channels, in.channels, v + p * v_stride, false,
                    packed + p * weight_stride, false, w + p * w_stride);
          }
          for (std::int64_t t = 0; t < count; ++t) {
            leave(out, out.tile(first + t), w + t * out.channels, w_stride, bias, y);
          }
        }
      }
    });
  }

  /// to (36, rows, columns), matrices apart(), of the kernels at weights + row * row_stride +
  /// column * column_stride.
  TANDEM_ONCE static void pack(Team& team, float const* weights, int rows, std::int64_t row_stride,
                               int columns, std::int64_t column_stride, bool turned, float* to);

  /// Sums (36, Out, In), matrices apart(), to the gradient (Out, In, 3, 3).
  TANDEM_ONCE void leave_weights(Team& team, float const* sums, float* gradient,
                                 bool accumulate) const;

  ConvolutionGeometry geometry_{};
  int threads_ = 1;
};

}  // namespace tandem::host::channels_last

#if TANDEM_BODIES

namespace tandem::host::channels_last {

TANDEM_ONCE void Winograd::enter(Images in, Tile tile, Extent2d padding, float const* x, float* to,
                                 std::int64_t stride) {
  constexpr int n = detail::winograd_in;
  int const row = tile.row - padding.height;
  int const column = tile.column - padding.width;
  std::int64_t const corner = in.at(tile.sample, row, column);
  std::int64_t const width = in.size.width;
  for_vectors(
      in.channels, [=](int c, auto some) __attribute__((always_inline)) {
        detail::winograd_both<n, n>(
            [=](int i, int j) __attribute__((always_inline)) {
              return in.contains(row + i, column + j)
                         ? some.load(x + (corner + (i * width + j) * in.channels + c))
                         : Floats{0.0F};
            },
            [](auto... a) { detail::winograd_input(a...); },
            [=](int i, int j, Floats const& v)
                __attribute__((always_inline)) { some.store(to + (i * n + j) * stride + c, v); });
      });
}

TANDEM_ONCE void Winograd::enter_gradient(Images out, Tile tile, float const* dy, float* to,
                                          std::int64_t stride) {
  constexpr int n = detail::winograd_in;
  constexpr int m = detail::winograd_out;
  std::int64_t const corner = out.at(tile.sample, tile.row, tile.column);
  std::int64_t const width = out.size.width;
  for_vectors(
      out.channels, [=](int c, auto some) __attribute__((always_inline)) {
        detail::winograd_both<m, n>(
            [=](int i, int j) __attribute__((always_inline)) {
              return out.contains(tile.row + i, tile.column + j)
                         ? some.load(dy + (corner + (i * width + j) * out.channels + c))
                         : Floats{0.0F};
            },
            [](auto... a) { detail::winograd_output_gradient(a...); },
            [=](int i, int j, Floats const& v)
                __attribute__((always_inline)) { some.store(to + (i * n + j) * stride + c, v); });
      });
}

TANDEM_ONCE void Winograd::leave(Images out, Tile tile, float const* from, std::int64_t stride,
                                 float const* bias, float* y) {
  constexpr int n = detail::winograd_in;
  constexpr int m = detail::winograd_out;
  std::int64_t const corner = out.at(tile.sample, tile.row, tile.column);
  std::int64_t const width = out.size.width;
  for_vectors(
      out.channels, [=](int c, auto some) __attribute__((always_inline)) {
        Floats const added = bias != nullptr ? some.load(bias + c) : Floats{0.0F};
        detail::winograd_both<n, m>(
            [=](int i, int j) __attribute__((always_inline)) {
              return some.load(from + (i * n + j) * stride + c);
            },
            [](auto... a) { detail::winograd_output(a...); },
            [=](int i, int j, Floats const& v) __attribute__((always_inline)) {
              if (out.contains(tile.row + i, tile.column + j)) {
                some.store(y + (corner + (i * width + j) * out.channels + c), v + added);
              }
            });
      });
}

TANDEM_ONCE void Winograd::pack(Team& team, float const* weights, int rows, std::int64_t row_stride,
                                int columns, std::int64_t column_stride, bool turned, float* to) {
  constexpr int n = detail::winograd_in;
  std::int64_t const stride = apart(std::int64_t{rows} * columns);
  team.parallel_for(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for_vectors(columns, [&](int column, auto some) {
        float kernels[9][lanes] = {};
        int const count = std::min(columns - column, lanes);
        for (int j = 0; j < count; ++j) {
          float const* const kernel = weights + row * row_stride + (column + j) * column_stride;
          for (int i = 0; i < 9; ++i) {
            kernels[i][j] = kernel[turned ? 8 - i : i];
          }
        }
        detail::winograd_both<3, n>([&](int i, int j) { return load(kernels[3 * i + j]); },
                                    [](auto... a) { detail::winograd_weight(a...); },
                                    [&](int i, int j, Floats const& v) {
                                      some.store(to + (i * n + j) * stride + row * columns + column,
                                                 v);
                                    });
      });
    }
  });
}

TANDEM_ONCE void Winograd::leave_weights(Team& team, float const* sums, float* gradient,
                                         bool accumulate) const {
  constexpr int n = detail::winograd_in;
  int const in = geometry_.in_channels;
  std::int64_t const out = geometry_.out_channels;
  std::int64_t const stride = apart(out * in);
  team.parallel_for(out, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (int c = 0; c < in; c += lanes) {
        int const count = std::min(in - c, lanes);
        float kernels[9][lanes];
        detail::winograd_both<n, 3>(
            [&](int i, int j) {
              float const* const from = sums + (i * n + j) * stride + row * in + c;
              return count == lanes ? load(from) : load(from, count);
            },
            [](auto... a) { detail::winograd_weight_gradient(a...); },
            [&](int i, int j, Floats const& v) { store(kernels[3 * i + j], v); });
        float* const to = gradient + (row * in + c) * 9;
        for (int j = 0; j < count; ++j) {
          for (int i = 0; i < 9; ++i) {
            to[j * 9 + i] = (accumulate ? to[j * 9 + i] : 0.0F) + kernels[i][j];
          }
        }
      }
    }
  });
}

}  // namespace tandem::host::channels_last

#endif
