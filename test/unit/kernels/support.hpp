// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of the kernels share: random and poisoned arrays, bounds, teams of 1, 2 and 3.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/philox.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::test {

using host::Team;

template <class T>
inline constexpr T nan = std::numeric_limits<T>::quiet_NaN();

template <class T>
inline constexpr double eps = static_cast<double>(std::numeric_limits<T>::epsilon());

/// @p n numbers in [-1, 1), the same for a seed whatever T is.
template <class T>
std::vector<T> random(std::int64_t n, std::uint64_t seed) {
  std::vector<T> x(static_cast<std::size_t>(n));
  std::uint64_t i = 0;
  for (T& value : x) {
    value = static_cast<T>(2 * uniform(philox(seed, RandomUse::user, i++, 0).word[0]) - 1);
  }
  return x;
}

/// @p n NaNs: what a kernel does not write, or reads and should not, shows.
template <class T>
std::vector<T> poisoned(std::int64_t n) {
  return std::vector<T>(static_cast<std::size_t>(n), nan<T>);
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Checks |a[i] - b[i]| <= bound[i] for each i; a NaN fails.
template <class T>
bool within(std::vector<T> const& a, std::vector<double> const& b,
            std::vector<double> const& bound) {
  if (a.size() != b.size() || a.size() != bound.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(static_cast<double>(a[i]) - b[i]) <= bound[i])) {
      MESSAGE("element ", i, ": ", a[i], " against ", b[i], ", bound ", bound[i]);
      return false;
    }
  }
  return true;
}

/// f(team) for teams of 1, 2 and 3 threads; returns the result of the first, checks that the bits
/// of the others are the same.
template <class Function>
auto on_teams(Function const& f) {
  Team one{1};
  auto const result = f(one);
  for (int threads = 2; threads <= 3; ++threads) {
    Team team{threads};
    CHECK(same_bits(f(team), result));
  }
  return result;
}

/// All arrays of a kernel's output behind one another, so that on_teams compares them at once.
template <class T>
std::vector<T> joined(std::initializer_list<std::vector<T>> parts) {
  std::vector<T> all;
  for (auto const& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// (f(x + h e_i) - f(x - h e_i)) / 2 h for each i, f(x) a number.
template <class Function>
std::vector<double> finite_differences(std::vector<double> x, Function const& f,
                                       double h = 0x1p-17) {
  std::vector<double> gradient;
  for (double& value : x) {
    double const old = value;
    value = old + h;
    double const above = f(x);
    value = old - h;
    double const below = f(x);
    value = old;
    gradient.push_back((above - below) / (2 * h));
  }
  return gradient;
}

/// The sum of x[i] y[i].
inline double dot(std::vector<double> const& x, std::vector<double> const& y) {
  double total = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    total += x[i] * y[i];
  }
  return total;
}

inline std::vector<double> constant(std::size_t n, double value) {
  return std::vector<double>(n, value);
}

}  // namespace tandem::test
