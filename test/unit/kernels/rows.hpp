// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of row-wise kernels share: the same numbers in three types, and their errors.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <tandem/core/bfloat16.hpp>

#include "support.hpp"

namespace tandem::test {

/// What a result rounded to T may differ by, relative to 1 + its magnitude, when it is a sum of
/// few terms that are computed in float or double.
template <class T>
inline constexpr double row_bound = std::is_same_v<T, BFloat16> ? 0x1p-8
                                    : std::is_same_v<T, float>  ? 0x1p-19
                                                                : 0x1p-45;

/// Numbers in [-scale, scale) that BFloat16 holds exactly, so that all types start from the same.
template <class T>
std::vector<T> row_numbers(std::int64_t n, std::uint64_t seed, float scale = 1.0F) {
  std::vector<T> list;
  for (float const x : random<float>(n, seed)) {
    auto const rounded = static_cast<float>(BFloat16{scale * x});
    list.push_back(static_cast<T>(rounded));
  }
  return list;
}

/// @p n NaNs.
template <class T>
std::vector<T> row_poison(std::int64_t n) {
  return std::vector<T>(static_cast<std::size_t>(n), static_cast<T>(nan<float>));
}

/// The largest |a - b| / (1 + |b|); NaN if any number is.
template <class T>
double row_error(std::vector<T> const& a, std::vector<double> const& b) {
  double worst = a.size() == b.size() ? 0.0 : nan<double>;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    double const error = std::abs(static_cast<double>(a[i]) - b[i]) / (1.0 + std::abs(b[i]));
    worst = error <= worst ? worst : error;
  }
  return worst;
}

}  // namespace tandem::test
