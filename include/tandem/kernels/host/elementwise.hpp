// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Loops over n numbers that have no shape: fill, copy, sum, axpby, sum_of_squares, all_finite,
/// transform.
///
/// Every kernel of this folder takes its Team first, never allocates and never throws, and gives
/// the same bits for a Team of any size. The kernels without a shape take n last.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/lanes.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Calls f(i) for each i in [0, n), in no order that f may rely on; f is inlined into the loop.
///
/// @pre f writes only what belongs to its own i
template <class Function>
TANDEM_NOINLINE void transform(Team& team, std::int64_t n, Function const& f) {
  team.parallel_for(n, [f](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      f(i);
    }
  });
}

/// y[i] = value.
template <class T>
TANDEM_NOINLINE void fill(Team& team, T* y, std::int64_t n, T value) {
  team.parallel_for(
      n, [=](std::int64_t begin, std::int64_t end) { std::fill(y + begin, y + end, value); });
}

/// y[i] = x[i].
///
/// @pre x and y are equal or do not overlap
template <class T>
TANDEM_NOINLINE void copy(Team& team, T const* x, T* y, std::int64_t n) {
  if (x == y) {
    return;
  }
  team.parallel_for(
      n, [=](std::int64_t begin, std::int64_t end) { std::copy(x + begin, x + end, y + begin); });
}

/// out[i] = in[0][i] + … + in[k - 1][i].
///
/// Cost:  reads k n elements and writes n; bound by memory.
/// Order: ((in[0] + in[1]) + in[2]) + …, for each i.
/// @pre   k >= 0 (0: zeros); out may be one of the inputs
template <class T>
TANDEM_NOINLINE void sum(Team& team, T const* const* in, int k, T* out, std::int64_t n) {
  constexpr std::int64_t block = 1024;  // stays in the first-level cache while the k inputs pass
  team.parallel_for((n + block - 1) / block, [=](std::int64_t begin, std::int64_t end) {
    T total[block];
    for (std::int64_t b = begin; b < end; ++b) {
      std::int64_t const first = b * block;
      std::int64_t const count = std::min(block, n - first);
      if (k > 0) {
        std::copy(in[0] + first, in[0] + first + count, total);
      } else {
        std::fill(total, total + count, T{0});
      }
      for (int j = 1; j < k; ++j) {
        T const* const x = in[j] + first;
        for (std::int64_t i = 0; i < count; ++i) {
          total[i] += x[i];
        }
      }
      std::copy(total, total + count, out + first);
    }
  });
}

/// y[i] = a x[i] + b y[i]; for b == 0 y is not read, so that it may hold anything.
template <class T>
TANDEM_NOINLINE void axpby(Team& team, T a, T const* x, T b, T* y, std::int64_t n) {
  if (b == T{0}) {
    transform(team, n, [=](std::int64_t i) { y[i] = a * x[i]; });
  } else {
    transform(team, n, [=](std::int64_t i) { y[i] = a * x[i] + b * y[i]; });
  }
}

/// x[0]² + … + x[n - 1]², squared and added in double.
///
/// Order: 256 chunks whose length is a function of n, each in 16 lanes; then the chunks in order.
template <class T>
[[nodiscard]] TANDEM_NOINLINE double sum_of_squares(Team& team, T const* x, std::int64_t n) {
  constexpr std::int64_t chunks = 256;
  double partial[chunks];
  std::int64_t const length = (n + chunks - 1) / chunks;
  team.parallel_for(chunks, [=, &partial](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      std::int64_t const first = std::min(n, chunk * length);
      std::int64_t const count = std::min(length, n - first);
      partial[chunk] = detail::lane_sum<double>(count, [&](std::int64_t i) {
        double const value = static_cast<double>(x[first + i]);
        return value * value;
      });
    }
  });
  double total = 0;
  for (double const value : partial) {
    total += value;
  }
  return total;
}

/// Whether no element is infinite or NaN, also under -ffast-math.
///
/// Cost: reads n elements; bound by memory.
template <class T>
[[nodiscard]] TANDEM_NOINLINE bool all_finite(Team& team, T const* x, std::int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  constexpr Bits exponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  std::atomic<bool> finite{true};
  team.parallel_for(n, [=, &finite](std::int64_t begin, std::int64_t end) {
    Bits bad = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      bad |= Bits{(std::bit_cast<Bits>(x[i]) & exponent) == exponent};
    }
    if (bad != 0) {
      finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load(std::memory_order_relaxed);
}

}  // namespace tandem::host
