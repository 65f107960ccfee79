// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of kernels over rows and columns share: numbers, bounds, transposes.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/kernels/cuda/column_tiles.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <device_array.hpp>

namespace tandem::test {

/// One rounding of the type that kernels compute in; and of the type that they store.
template <class T>
inline constexpr double unit = sizeof(T) == 8 ? 0x1p-53 : 0x1p-24;
template <class T>
inline constexpr double stored_unit = sizeof(T) == 2 ? 0x1p-8 : unit<T>;

/// The type of parameters beside activations of type T.
template <class T>
using MasterOf = cuda::ComputeType<T>;

inline cuda::RankDevice& gpu() {
  static cuda::RankDevice device{cuda::Device{0}};
  return device;
}

/// @p n numbers in [-1, 1), rounded to T.
template <class T>
std::vector<T> numbers(std::int64_t n, std::uint64_t seed, double scale = 1, double offset = 0) {
  std::vector<T> x(static_cast<std::size_t>(n));
  std::uint64_t i = 0;
  for (T& value : x) {
    double const u = 2 * uniform(philox(seed, RandomUse::user, i++, 0).word[0]) - 1;
    value = static_cast<T>(static_cast<cuda::ComputeType<T>>(offset + scale * u));
  }
  return x;
}

template <class T>
double number(T x) {
  return static_cast<double>(cuda::load(x));
}

template <class T>
std::vector<double> in_double(std::vector<T> const& x) {
  std::vector<double> y;
  for (T const value : x) {
    y.push_back(number(value));
  }
  return y;
}

/// (rows, columns) as (columns, rows).
template <class T>
std::vector<T> transposed(std::vector<T> const& x, std::int64_t rows, std::int64_t columns) {
  std::vector<T> y(x.size());
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    y[static_cast<std::size_t>(i % columns * rows + i / columns)] = x[static_cast<std::size_t>(i)];
  }
  return y;
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Checks |a[i] - b[i]| <= bound(i) for each i; a NaN fails.
template <class T, class Bound>
void check_within(std::vector<T> const& a, std::vector<double> const& b, Bound const& bound) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const allowed = bound(i);
    if (!(std::abs(number(a[i]) - b[i]) <= allowed)) {
      FAIL_CHECK("element ", i, ": ", number(a[i]), " against ", b[i], ", bound ", allowed);
      return;
    }
  }
}

/// Most roundings on the way of one element into a sum over rows: a thread's share of its chunk,
/// the tree of the block, and some for what double adds and for the result.
template <class T>
double roundings(std::int64_t rows, int columns) {
  cuda::ColumnTiles const tiles = cuda::column_tiles<T>(rows, columns);
  return std::ceil(static_cast<double>(tiles.chunk_rows) / tiles.down) + 8 + 4;
}

struct Size {
  std::int64_t rows;
  int columns;

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

/// Vectors and single columns, groups of columns, one chunk, several, and more than 32.
inline constexpr Size sizes[] = {{1, 1},   {2, 3},   {5, 17},   {33, 100},  {7, 2048}, {257, 64},
                                 {3, 520}, {700, 3}, {5000, 1}, {1153, 17}, {4999, 64}};

}  // namespace tandem::test
