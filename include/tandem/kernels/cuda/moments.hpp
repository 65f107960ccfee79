// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Moments: mean and squared distances of values that are added in groups, and of groups of groups.
///
/// Sources: Welford, Technometrics 4 (1962); Chan, Golub, LeVeque, Am. Stat. 37 (1983).

#include <cstddef>

#include <tandem/core/config.hpp>

namespace tandem::cuda::detail {

/// Count, means and sums of squared distances of one thread's columns. An odd number of words, so
/// that neighbours in shared memory do not share a bank.
template <class Real, int N>
struct Moments {
  Real count;
  Real mean[static_cast<std::size_t>(N)];
  Real squares[static_cast<std::size_t>(N)];

  /// @p used values of each column, value[used][N], are added.
  ///
  /// With s and q the sums of d = value - mean and of d²: mean += s / n, squares += q - s² / n. At
  /// least one d of the first group must be 0; then q - s² / n >= q / 4, and nothing cancels.
  template <std::size_t Together>
  TANDEM_HOST_DEVICE void add(Real const (&value)[Together][static_cast<std::size_t>(N)],
                              int used) {
    constexpr int together = static_cast<int>(Together);
    count += static_cast<Real>(used);
    Real const part = Real{1} / count;
    for (int v = 0; v < N; ++v) {
      Real s = 0;
      Real q = 0;
      for (int i = 0; i < together; ++i) {
        Real const d = i < used ? value[i][v] - mean[v] : Real{0};
        s += d;
        q += d * d;
      }
      Real const move = s * part;
      mean[v] += move;
      squares[v] += q - s * move;
    }
  }

  /// Adds other values of the same columns: Chan's formula.
  TANDEM_HOST_DEVICE void join(Moments const& other) {
    if (!(other.count > Real{0})) {
      return;
    }
    Real const together = count + other.count;
    Real const part = other.count / together;
    for (int v = 0; v < N; ++v) {
      Real const d = other.mean[v] - mean[v];
      squares[v] += other.squares[v] + d * d * (count * part);
      mean[v] += d * part;
    }
    count = together;
  }
};

}  // namespace tandem::cuda::detail
