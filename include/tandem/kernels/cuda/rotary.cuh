// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rotary positions: pairs of a head's numbers turned by an angle that grows with the row.
///
/// Llama's convention, as on Host: number i of a head of D is paired with number i + D / 2.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Heads of D numbers in a row; the first `turned` of them are rotated.
struct RotaryHeads {
  int all;
  int turned;
  int size;  ///< D, even

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int half() const { return size / 2; }
};

/// cosine and sine (T, D / 2), one behind the other.
template <class Real>
struct RotaryTable {
  Real* cosine;
  Real* sine;

  static constexpr std::int64_t bytes(std::int64_t longest, int head_size) {
    return longest * head_size * static_cast<std::int64_t>(sizeof(Real));
  }
  static RotaryTable at(std::byte* memory, std::int64_t longest, int head_size) {
    Real* const first = reinterpret_cast<Real*>(memory);
    return {first, first + longest * (head_size / 2)};
  }
};

namespace detail {

template <class Real>
struct RotaryAngle {
  RotaryTable<Real> to;
  int half;
  int first;
  double base;

  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    using std::cos;
    using std::pow;
    using std::sin;
    double const frequency = pow(base, -static_cast<double>(i % half) / half);
    double const angle = static_cast<double>(first + i / half) * frequency;
    to.cosine[i] = static_cast<Real>(cos(angle));
    to.sine[i] = static_cast<Real>(sin(angle));
  }
};

/// (a, b) of N pairs become (a cos - b sin, b cos + a sin).
template <class T, int N>
TANDEM_HOST_DEVICE void turn(Pack<T, N>& a, Pack<T, N>& b, ComputeType<T> const* cosine,
                             ComputeType<T> const* sine, bool backwards) {
  for (int v = 0; v < N; ++v) {
    ComputeType<T> const along = cosine[v];
    ComputeType<T> const across = backwards ? -sine[v] : sine[v];
    ComputeType<T> const first = load(a.value[v]);
    ComputeType<T> const second = load(b.value[v]);
    a.value[v] = store<T>(first * along - second * across);
    b.value[v] = store<T>(second * along + first * across);
  }
}

template <int Lanes, int N, class T>
TANDEM_KERNEL void rotate_kernel(std::int64_t rows, int time, RotaryHeads heads, T const* x,
                                 RotaryTable<ComputeType<T>> table, bool backwards, T* y) {
  await_previous();
  RowPlace<Lanes> const place{static_cast<int>(threadIdx.x), blockIdx.x, rows};
  if (!place.works) {
    return;
  }
  int const half = heads.half();
  std::int64_t const first = place.row * heads.all * heads.size;
  std::int64_t const angles = place.row % time * half;
  int const pairs = (x == y ? heads.turned : heads.all) * half;
  for (int pair = place.lane * N; pair < pairs; pair += Lanes * N) {
    int const head = pair / half;
    int const i = pair - head * half;
    std::int64_t const at = first + std::int64_t{head} * heads.size + i;
    Pack<T, N> a = load_pack<N>(x + at);
    Pack<T, N> b = load_pack<N>(x + at + half);
    if (head < heads.turned) {
      turn(a, b, table.cosine + angles + i, table.sine + angles + i, backwards);
    }
    store_pack(y + at, a);
    store_pack(y + at + half, b);
  }
}

}  // namespace detail

/// cosine and sine of t base^(-2 i / D) for `rows` times t from @p first on, computed in double.
///
/// Cost: rows D / 2 of each; one launch.
template <class Real>
void rotary_table(Stream const& stream, int rows, int head_size, double base,
                  RotaryTable<Real> const& table, int first = 0) {
  int const half = head_size / 2;
  each(stream, std::int64_t{rows} * half, detail::RotaryAngle<Real>{table, half, first, base});
}

/// Of each pair (a, b) of a rotated head in row t: (a cos - b sin, b cos + a sin); with `backwards`
/// the inverse rotation, which is the gradient. The other heads are copied.
///
/// Shapes: x (B, time, heads, D), table (T, D / 2); y as x, and may be x.
/// Cost:   reads and writes B time heads D elements; bound by memory. One launch.
/// Source: Su et al., arXiv:2104.09864
template <class T>
void rotate(Stream const& stream, int batch, int time, RotaryHeads const& heads, T const* x,
            RotaryTable<ComputeType<T>> const& table, bool backwards, T* y) {
  std::int64_t const rows = std::int64_t{batch} * time;
  with_row_lanes(std::int64_t{heads.all} * heads.half(), [&](auto lanes) {
    constexpr int n = decltype(lanes)::value;
    auto const queue = [&](auto width) {
      launch(detail::rotate_kernel<n, decltype(width)::value, T>, blocks_for(rows, row_threads / n),
             row_threads, stream, rows, time, heads, x, table, backwards, y);
    };
    if (packs_channels(heads.half(), x, static_cast<T const*>(y))) {
      queue(std::integral_constant<int, full_pack<T>>{});
    } else {
      queue(std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace tandem::cuda
