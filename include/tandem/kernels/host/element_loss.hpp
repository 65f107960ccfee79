// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sum of a loss over elements, and its gradient. The mean is the caller's division.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/kernels/host/lanes.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// Adds the sum over all elements of L::loss(y, t), in double, to @p total.
///
/// Shapes: y, t (B, elements); losses (B), each sample's sum.
/// Order:  the elements of a sample in 16 lanes in double; then the samples are added one by one,
///         so that a batch gives the same bits in one call or in several.
template <class L, class T>
TANDEM_NOINLINE void element_loss_forward(Team& team, int batch, std::int64_t elements, T const* y,
                                          T const* t, double* losses, double& total) {
  team.parallel_for(batch, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      losses[s] = detail::lane_sum<double>(elements, [=](std::int64_t i) {
        std::int64_t const at = s * elements + i;
        return L::loss(static_cast<double>(y[at]), static_cast<double>(t[at]));
      });
    }
  });
  for (std::int64_t s = 0; s < batch; ++s) {
    total += losses[s];
  }
}

/// dy = L::gradient(y, t) * scale.
///
/// Shapes: y, t (n); dy (n), which may be y.
template <class L, class T>
TANDEM_NOINLINE void element_loss_gradient(Team& team, T const* y, T const* t, T scale, T* dy,
                                           std::int64_t n) {
  transform(team, n, [=](std::int64_t i) { dy[i] = L::gradient(y[i], t[i]) * scale; });
}

}  // namespace tandem::host
