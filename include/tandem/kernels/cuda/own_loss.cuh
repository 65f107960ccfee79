// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A program's own loss and metric of whole samples: their sum, and the loss's gradient.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/row.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

namespace detail {

/// Few to a block, so that a batch is spread over many multiprocessors.
inline constexpr int sample_threads = 32;

template <class L, class R, class Target>
TANDEM_KERNEL void own_values_kernel(R const* y, Target const* t, std::int64_t batch,
                                     std::size_t outputs, std::size_t targets, double* values) {
  await_previous();
  std::int64_t const s =
      static_cast<std::int64_t>(blockIdx.x) * sample_threads + static_cast<int>(threadIdx.x);
  if (s < batch) {
    auto const at = static_cast<std::size_t>(s);
    values[at] = L::value(Row<R const>{y + at * outputs, outputs},
                          Row<Target const>{t + at * targets, targets});
  }
}

template <class L, class R, class Target>
TANDEM_KERNEL void own_gradients_kernel(R const* y, Target const* t, std::int64_t batch,
                                        std::size_t outputs, std::size_t targets, R scale,
                                        float const* loss_scale, R* dy) {
  await_previous();
  std::int64_t const s =
      static_cast<std::int64_t>(blockIdx.x) * sample_threads + static_cast<int>(threadIdx.x);
  if (s < batch) {
    auto const at = static_cast<std::size_t>(s);
    Row<R> const sample{dy + at * outputs, outputs};
    L::gradient(Row<R const>{y + at * outputs, outputs},
                Row<Target const>{t + at * targets, targets}, sample);
    R const by = loss_scale != nullptr ? scale * static_cast<R>(*loss_scale) : scale;
    for (R& element : sample) {
      element *= by;
    }
  }
}

}  // namespace detail

/// values[s] = L::value of sample s, and *sum = their sum.
///
/// Shapes: y (B, outputs), t (B, targets); values (B), scratch.
/// Cost:   two launches; a thread reads a sample, which is fit for a few thousand outputs.
/// Order:  that of ordered_sum.
template <class L, class R, class Target>
void own_value_sum(Stream const& stream, R const* y, Target const* t, std::int64_t batch,
                   std::int64_t outputs, std::int64_t targets, double* values, double* sum) {
  launch(detail::own_values_kernel<L, R, Target>, blocks_for(batch, detail::sample_threads),
         detail::sample_threads, stream, y, t, batch, static_cast<std::size_t>(outputs),
         static_cast<std::size_t>(targets), values);
  ordered_sum(stream, values, batch, 1.0, sum);
}

/// dy = L::gradient of each sample, times @p scale, and *loss_scale where that is not null.
///
/// Shapes: y, dy (B, outputs), t (B, targets).
/// Cost:   as own_value_sum; one launch.
/// @pre    y and dy do not overlap
template <class L, class R, class Target>
void own_gradient(Stream const& stream, R const* y, Target const* t, std::int64_t batch,
                  std::int64_t outputs, std::int64_t targets, double scale, R* dy,
                  float const* loss_scale = nullptr) {
  launch(detail::own_gradients_kernel<L, R, Target>, blocks_for(batch, detail::sample_threads),
         detail::sample_threads, stream, y, t, batch, static_cast<std::size_t>(outputs),
         static_cast<std::size_t>(targets), static_cast<R>(scale), loss_scale, dy);
}

}  // namespace tandem::cuda
