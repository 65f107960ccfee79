// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Products of arrays, element by element, and their gradients.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// y[i] = x[0][i] … x[k - 1][i].
///
/// Cost:  reads k n elements and writes n; bound by memory.
/// Order: ((x[0] x[1]) x[2]) …, for each i; rounded once.
/// @pre   k >= 1
template <class T>
TANDEM_NOINLINE void product_forward(Team& team, T const* const* x, int k, T* y, std::int64_t n) {
  for_wide<T>(team, n, [=](std::int64_t i, auto some) {
    auto product = some.load(x[0] + i);
    for (int j = 1; j < k; ++j) {
      product = product * some.load(x[j] + i);
    }
    some.store(y + i, product);
  });
}

/// dx[j][i] = dy[i] times the other x[.][i], for each dx[j] that is not null.
///
/// Cost:  reads (k + 1) n elements and writes n for each dx; bound by memory.
/// Order: dy, then the others in order; rounded once. No x is divided by, so that it may be 0.
template <class T>
TANDEM_NOINLINE void product_gradient(Team& team, T const* const* x, int k, T const* dy,
                                      T* const* dx, std::int64_t n) {
  for_wide<T>(team, n, [=](std::int64_t i, auto some) {
    for (int j = 0; j < k; ++j) {
      if (dx[j] == nullptr) {
        continue;
      }
      auto product = some.load(dy + i);
      for (int other = 0; other < k; ++other) {
        if (other != j) {
          product = product * some.load(x[other] + i);
        }
      }
      some.store(dx[j] + i, product);
    }
  });
}

}  // namespace tandem::host
