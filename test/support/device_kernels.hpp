// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of Cuda's kernels share: random numbers of any element type, the two layouts, and
/// Host's kernels as the oracle.
///
/// A BFloat16 is exact as a float, so that the oracle for it is Host's float kernel on the same
/// numbers, rounded at the end: in_compute() and rounded_to() are the way there and back.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/philox.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>

#include "device_array.hpp"

namespace tandem::test {

/// @p n numbers in [-1, 1), the same for a seed up to the rounding to T.
template <class T>
std::vector<T> random(std::int64_t n, std::uint64_t seed) {
  std::vector<T> x(static_cast<std::size_t>(n));
  std::uint64_t i = 0;
  for (T& value : x) {
    float const number = 2 * uniform(philox(seed, RandomUse::user, i++, 0).word[0]) - 1;
    value = cuda::store<T>(static_cast<cuda::ComputeType<T>>(number));
  }
  return x;
}

/// @p x as kernels compute with it; exact.
template <class T>
std::vector<cuda::ComputeType<T>> in_compute(std::vector<T> const& x) {
  std::vector<cuda::ComputeType<T>> result;
  for (T const value : x) {
    result.push_back(cuda::load(value));
  }
  return result;
}

/// @p x as it is stored.
template <class T>
std::vector<T> rounded_to(std::vector<cuda::ComputeType<T>> const& x) {
  std::vector<T> result;
  for (auto const value : x) {
    result.push_back(cuda::store<T>(value));
  }
  return result;
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// The same bits but for NaNs, of which a GPU makes others than a CPU.
template <class T>
bool same_numbers(std::vector<T> const& a, std::vector<T> const& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) {
    auto const x = cuda::load(a[i]);
    auto const y = cuda::load(b[i]);
    same = (x != x && y != y) || std::memcmp(&a[i], &b[i], sizeof(T)) == 0;
  }
  return same;
}

/// x (B, rows, columns) as (B, columns, rows).
template <class T>
std::vector<T> transposed(std::vector<T> const& x, int batch, int rows, int columns) {
  std::vector<T> y(x.size());
  std::size_t const m = static_cast<std::size_t>(rows);
  std::size_t const n = static_cast<std::size_t>(columns);
  for (std::size_t s = 0; s < static_cast<std::size_t>(batch); ++s) {
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        y[(s * n + j) * m + i] = x[(s * m + i) * n + j];
      }
    }
  }
  return y;
}

/// (B, C, pixels) as (B, pixels, C).
template <class T>
std::vector<T> channels_last(std::vector<T> const& x, int batch, int channels, int pixels) {
  return transposed(x, batch, channels, pixels);
}

/// (B, pixels, C) as (B, C, pixels).
template <class T>
std::vector<T> channels_first(std::vector<T> const& x, int batch, int channels, int pixels) {
  return transposed(x, batch, pixels, channels);
}

/// Half the distance from 1 to the next number: what rounding to T changes a number by, relatively.
template <class T>
inline constexpr double half_ulp = sizeof(T) == 8   ? 0x1p-53
                                   : sizeof(T) == 4 ? 0x1p-24
                                                    : 0x1p-8;

/// Checks |a[i] - b[i]| <= bound[i] for each i; a NaN fails.
template <class T>
bool within(std::vector<T> const& a, std::vector<double> const& b,
            std::vector<double> const& bound) {
  if (a.size() != b.size() || a.size() != bound.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto const value = static_cast<double>(cuda::load(a[i]));
    if (!(std::abs(value - b[i]) <= bound[i])) {
      MESSAGE("element ", i, ": ", value, " against ", b[i], ", bound ", bound[i]);
      return false;
    }
  }
  return true;
}

}  // namespace tandem::test
