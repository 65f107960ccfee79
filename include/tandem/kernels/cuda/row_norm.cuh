// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Layer norm and RMS norm over the rows of a (rows, columns) matrix, also of a sum of two, with a
/// dropout of the first.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/dropout.cuh>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/moments.hpp>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/functors/dropout_mask.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// What a row is made of: x - mean(x), or x itself.
enum class RowNorm : bool { layer, rms };

/// What forward leaves to the gradients, a number of each row.
template <class P>
struct RowNormSaved {
  P* inverse;  ///< 1 / sqrt(mean square of what is normalised + epsilon)
  P* mean;     ///< of a layer norm; null for an RMS norm

  static constexpr std::int64_t bytes(RowNorm kind, std::int64_t rows) {
    return (kind == RowNorm::layer ? 2 : 1) * rows * static_cast<std::int64_t>(sizeof(P));
  }
  static RowNormSaved at(RowNorm kind, std::byte* memory, std::int64_t rows) {
    P* const first = reinterpret_cast<P*>(memory);
    return {first, kind == RowNorm::layer ? first + rows : nullptr};
  }
};

/// What is dropped of some rows of a batch, each sample's elements counted in order.
struct RowDropout {
  DropoutSource source{};
  float rate = 0.0F;
  DropoutRows rows{};
  std::int64_t first_row = 0;  ///< of a sample, where these are some of its rows
};

namespace detail {

/// The mask of one row.
template <class T>
struct RowMask {
  DropoutPlace place;
  std::int64_t sample;
  std::int64_t element;  ///< of the sample: the row's first
  float rate;

  TANDEM_HOST_DEVICE RowMask(RowDropout const& dropout, std::int64_t row, int columns)
      : place{*dropout.source.seed, static_cast<std::uint32_t>(*dropout.source.step),
              dropout.source.layer, dropout.source.first_sample},
        sample{dropout.rows.sample(row)},
        element{(dropout.first_row + dropout.rows.in_sample(row)) * columns},
        rate{dropout.rate} {}

  /// What a dropout would have stored of the values from @p column on.
  template <int N>
  TANDEM_HOST_DEVICE void apply(int column, Pack<ComputeType<T>, N>& x) const {
    auto const scale = dropout_scale<ComputeType<T>>(rate);
    std::int64_t const first = element + column;  // a multiple of N, as the columns are
    Random4 random{};
    for (int v = 0; v < N; ++v) {
      if (v % 4 == 0) {
        random = dropout_words(place, sample, (first + v) / 4);
      }
      std::uint32_t const word = N % 4 == 0 ? random.word[v % 4] : chosen(random, first + v);
      x.value[v] = load(store<T>(dropped(word, rate, scale, x.value[v])));
    }
  }

 private:
  // Word i mod 4, of registers: an index that only the device knows would want a stack.
  static TANDEM_HOST_DEVICE std::uint32_t chosen(Random4 const& random, std::int64_t i) {
    std::uint32_t const low = i % 2 == 0 ? random.word[0] : random.word[1];
    std::uint32_t const high = i % 2 == 0 ? random.word[2] : random.word[3];
    return i % 4 < 2 ? low : high;
  }
};

/// The first values are the origin that Moments::add() wants.
template <RowNorm Kind, int N, class Real>
TANDEM_HOST_DEVICE void add_values(Moments<Real, 1>& moments, Pack<Real, N> const& x) {
  if constexpr (Kind == RowNorm::layer) {
    Real value[N][1];
    for (int v = 0; v < N; ++v) {
      value[v][0] = x.value[v];
    }
    if (moments.count == Real{0}) {
      moments.mean[0] = value[0][0];
    }
    moments.add(value, N);
  } else {  // from 0 instead of from the mean
    moments.count += static_cast<Real>(N);
    for (int v = 0; v < N; ++v) {
      moments.squares[0] += x.value[v] * x.value[v];
    }
  }
}

struct JoinMoments {
  template <class M>
  TANDEM_HOST_DEVICE M operator()(M a, M const& b) const {
    if (!(a.count > 0)) {
      return b;
    }
    a.join(b);
    return a;
  }
};

/// A row's mean, 0 for an RMS norm, and 1 / deviation.
template <class Real>
struct RowStatistics {
  Real mean;
  Real inverse;

  [[nodiscard]] TANDEM_HOST_DEVICE Real normalised(Real x) const { return (x - mean) * inverse; }
};

/// What is normalised: x, or x + residual, which is rounded as it is stored in `sum`. Drops: x is
/// what a dropout has left of it.
template <bool Drops, class T>
struct RowNormInput {
  T const* x;
  T const* residual;  ///< or null
  T* sum;             ///< x + residual; null where that is
  RowDropout dropout;

  /// The values of @p row from @p column on, element @p i; the same thread may read them again from
  /// values().
  template <int N>
  [[nodiscard]] TANDEM_HOST_DEVICE Pack<ComputeType<T>, N> first_values(std::int64_t i,
                                                                        std::int64_t row,
                                                                        int column,
                                                                        int columns) const {
    Pack<ComputeType<T>, N> own = loaded(load_pack<N>(x + i));
    if constexpr (Drops) {
      RowMask<T>{dropout, row, columns}.apply(column, own);
    }
    if (residual != nullptr) {
      Pack<ComputeType<T>, N> const other = loaded(load_pack<N>(residual + i));
      for (int v = 0; v < N; ++v) {
        own.value[v] += other.value[v];
      }
      Pack<T, N> const rounded = stored<T>(own);
      store_pack(sum + i, rounded);
      own = loaded(rounded);
    }
    return own;
  }
  template <int N>
  [[nodiscard]] TANDEM_HOST_DEVICE Pack<ComputeType<T>, N> values(std::int64_t i) const {
    return loaded(load_pack<N>((residual != nullptr ? sum : x) + i));
  }
};

template <RowNorm Kind, int Lanes, int N, bool Drops, class T, class P>
TANDEM_KERNEL void row_norm_kernel(RowNormInput<Drops, T> input, std::int64_t rows, int columns,
                                   P const* gain, P const* bias, ComputeType<T> epsilon, T* y,
                                   RowNormSaved<P> saved) {
  await_previous();
  using Real = ComputeType<T>;
  using std::sqrt;
  __shared__ RowStatistics<Real> shared[row_threads / Lanes];
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  std::int64_t const first = place.row * columns;
  Moments<Real, 1> own{};
  for (int c = place.lane * N; place.works && c < columns; c += Lanes * N) {
    add_values<Kind>(own, input.template first_values<N>(first + c, place.row, c, columns));
  }
  auto const all = join_lanes<Lanes>(own, JoinMoments{});
  if (place.lane == 0) {
    Real const square = all.squares[0] / static_cast<Real>(columns);
    RowStatistics<Real> const row{all.mean[0], Real{1} / sqrt(square + epsilon)};
    shared[threadIdx.x / Lanes] = row;
    if (place.works) {
      saved.inverse[place.row] = row.inverse;
      if (Kind == RowNorm::layer) {
        saved.mean[place.row] = row.mean;
      }
    }
  }
  __syncthreads();
  RowStatistics<Real> const row = shared[threadIdx.x / Lanes];
  for (int c = place.lane * N; place.works && c < columns; c += Lanes * N) {
    Pack<Real, N> x = input.template values<N>(first + c);
    Real scale[N];
    Real offset[N] = {};
    load_constants(gain + c, scale);
    if (bias != nullptr) {
      load_constants(bias + c, offset);
    }
    for (int v = 0; v < N; ++v) {
      x.value[v] = row.normalised(x.value[v]) * scale[v] + offset[v];
    }
    store_pack(y + first + c, stored<T>(x));
  }
}

/// The rows' x and gradients that input gradients read twice, the second time from a cache.
template <int N, class T, class P>
struct RowNormGradientInput {
  using Real = ComputeType<T>;
  T const* x;
  T const* dy;
  P const* gain;

  struct Values {
    Pack<Real, N> normalised;
    Pack<Real, N> slope;  ///< dy gain
  };
  [[nodiscard]] TANDEM_HOST_DEVICE Values values(std::int64_t i, int column,
                                                 RowStatistics<Real> const& row) const {
    Values result{loaded(load_pack<N>(x + i)), loaded(load_pack<N>(dy + i))};
    Real scale[N];
    load_constants(gain + column, scale);
    for (int v = 0; v < N; ++v) {
      result.normalised.value[v] = row.normalised(result.normalised.value[v]);
      result.slope.value[v] *= scale[v];
    }
    return result;
  }
};

template <class Real>
struct RowNormSums {
  Real slope;
  Real product;

  TANDEM_HOST_DEVICE RowNormSums operator()(RowNormSums const& a, RowNormSums const& b) const {
    return {a.slope + b.slope, a.product + b.product};
  }
};

template <RowNorm Kind, int Lanes, int N, class T, class P>
TANDEM_KERNEL void row_norm_input_gradient_kernel(RowNormGradientInput<N, T, P> input,
                                                  std::int64_t rows, int columns,
                                                  RowNormSaved<P> saved, T const* also, T* dx) {
  await_previous();
  using Real = ComputeType<T>;
  __shared__ RowNormSums<Real> shared[row_threads / Lanes];
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  std::int64_t const first = place.row * columns;
  RowStatistics<Real> row{};
  if (place.works) {
    row = {Kind == RowNorm::layer ? static_cast<Real>(saved.mean[place.row]) : Real{0},
           static_cast<Real>(saved.inverse[place.row])};
  }
  RowNormSums<Real> own{};
  for (int c = place.lane * N; place.works && c < columns; c += Lanes * N) {
    auto const values = input.values(first + c, c, row);
    for (int v = 0; v < N; ++v) {
      own.slope += values.slope.value[v];
      own.product += values.slope.value[v] * values.normalised.value[v];
    }
  }
  auto const all = join_lanes<Lanes>(own, RowNormSums<Real>{});
  if (place.lane == 0) {
    shared[threadIdx.x / Lanes] = all;
  }
  __syncthreads();
  Real const count = static_cast<Real>(columns);
  RowNormSums<Real> const sums = shared[threadIdx.x / Lanes];
  Real const mean_slope = Kind == RowNorm::layer ? sums.slope / count : Real{0};
  Real const mean_product = sums.product / count;
  for (int c = place.lane * N; place.works && c < columns; c += Lanes * N) {
    auto values = input.values(first + c, c, row);
    Pack<Real, N> result{};
    if (also != nullptr) {
      result = loaded(load_pack<N>(also + first + c));
    }
    for (int v = 0; v < N; ++v) {
      Real const rest = values.slope.value[v] - mean_slope;
      Real const slope = (rest - values.normalised.value[v] * mean_product) * row.inverse;
      result.value[v] = add_rounded(result.value[v], load(store<T>(slope)));
    }
    store_pack(dx + first + c, stored<T>(result));
  }
}

/// f(lanes, width), both integral constants, for rows of so many columns that begin there.
template <class Function, class... T>
void with_row_packs(int columns, Function const& f, T const*... pointers) {
  with_row_lanes(columns, [&](auto lanes) {
    if (packs_channels(columns, pointers...)) {
      f(lanes, std::integral_constant<int, full_pack<T...>>{});
    } else {
      f(lanes, std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace detail

/// y = (x - mean(x)) / sqrt(var(x) + epsilon) * gain + bias over each row; an RMS norm has the mean
/// of squares for the variance, and 0 for the mean. With a residual, of x + residual, or of
/// dropout(x) + residual: the bits are those of one kernel after another.
///
/// Shapes: x, y (rows, columns), y may be x; gain, bias (columns), bias may be null; residual and
///         sum, which becomes x + residual rounded to T, (rows, columns) or null, sum may be
///         either.
/// Cost:   reads x and the residual and writes y and the sum once, and reads x (the sum) again from
///         a cache; bound by memory, with a dropout perhaps by its Philox blocks, one for each four
///         elements in packs. One launch.
/// Order:  a warp takes a row, or a block where there are more than 1024 columns: a lane's packs in
///         order by Moments in ComputeType<T>, then join_lanes().
/// Source: Ba, Kiros, Hinton, arXiv:1607.06450, section 3; Zhang, Sennrich, arXiv:1910.07467
template <RowNorm Kind, class T, class P>
void row_norm_forward(Stream const& stream, T const* x, std::int64_t rows, int columns,
                      P const* gain, P const* bias, double epsilon, T* y,
                      RowNormSaved<P> const& saved, T const* residual = nullptr, T* sum = nullptr,
                      RowDropout const& dropout = {}) {
  using Real = ComputeType<T>;
  auto const run = [&](auto drops) {
    detail::RowNormInput<decltype(drops)::value, T> const input{x, residual, sum, dropout};
    detail::with_row_packs(
        columns,
        [&](auto lanes, auto width) {
          constexpr int n = decltype(lanes)::value;
          launch(detail::row_norm_kernel<Kind, n, decltype(width)::value, decltype(drops)::value, T,
                                         P>,
                 blocks_for(rows, row_threads / n), row_threads, stream, input, rows, columns, gain,
                 bias, static_cast<Real>(epsilon), y, saved);
        },
        x, static_cast<T const*>(y), residual, static_cast<T const*>(sum));
  };
  dropout.rate > 0.0F ? run(std::true_type{}) : run(std::false_type{});
}

/// dx = [also +] the gradient, rounded to T, of row_norm_forward to x, or to x + residual:
/// (g - mean(g) - xhat mean(g xhat)) / deviation, g = dy gain; an RMS norm lacks mean(g).
///
/// Shapes: x (the sum, if there was one), dy, dx (rows, columns), dx may be dy; also (rows,
///         columns) or null: the gradient that comes to the sum past the norm.
/// Cost:   reads x, dy and also and writes dx once; bound by memory. One launch.
/// Order:  as row_norm_forward, sums in ComputeType<T>.
/// @pre    row_norm_forward has written @p saved
template <RowNorm Kind, class T, class P>
void row_norm_input_gradient(Stream const& stream, T const* x, T const* dy, std::int64_t rows,
                             int columns, P const* gain, RowNormSaved<P> const& saved, T* dx,
                             T const* also = nullptr) {
  detail::with_row_packs(
      columns,
      [&](auto lanes, auto width) {
        constexpr int n = decltype(lanes)::value;
        constexpr int wide = decltype(width)::value;
        launch(detail::row_norm_input_gradient_kernel<Kind, n, wide, T, P>,
               blocks_for(rows, row_threads / n), row_threads, stream,
               detail::RowNormGradientInput<wide, T, P>{x, dy, gain}, rows, columns, saved, also,
               dx);
      },
      x, dy, static_cast<T const*>(dx), also);
}

}  // namespace tandem::cuda
