// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sum of a loss over elements, and its gradient. Targets are floats, whatever the outputs are.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Where the target of an output stands: targets are (B, channels, pixels) as users write them,
/// outputs (B, pixels, channels). Vectors, and images of one channel or pixel, are as they are.
struct TargetOrder {
  int channels = 1;
  int pixels = 1;

  TANDEM_HOST_DEVICE std::int64_t at(std::int64_t i) const {
    if (channels == 1 || pixels == 1) {
      return i;
    }
    std::int64_t const sample = i / (std::int64_t{channels} * pixels);
    auto const rest = static_cast<int>(i - sample * channels * pixels);
    return (sample * channels + rest % channels) * pixels + rest / channels;
  }
};

namespace detail {

/// Blocks that share n elements: at least 4096 elements each, and no more than 1024 blocks.
constexpr unsigned element_loss_blocks(std::int64_t n) {
  unsigned const blocks = blocks_for(n, 4096, 1024);
  return blocks > 0 ? blocks : 1;
}

template <class L, class T>
TANDEM_KERNEL void element_losses_kernel(T const* y, float const* t, TargetOrder order,
                                         std::int64_t n, double divisor, double* sums) {
  await_previous();
  double own = 0;
  std::int64_t const all = static_cast<std::int64_t>(gridDim.x) * row_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * row_threads + threadIdx.x; i < n;
       i += all) {
    own += L::loss(static_cast<double>(load(y[i])), static_cast<double>(t[order.at(i)]));
  }
  double const total = sum_lanes<row_threads>(own);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = total / divisor;
  }
}

template <class L, class T>
TANDEM_KERNEL void element_loss_gradient_kernel(T const* y, float const* t, TargetOrder order,
                                                std::int64_t n, ComputeType<T> scale,
                                                float const* loss_scale, T* dy) {
  await_previous();
  using Real = ComputeType<T>;
  Real const by = loss_scale != nullptr ? scale * static_cast<Real>(*loss_scale) : scale;
  std::int64_t const all = static_cast<std::int64_t>(gridDim.x) * row_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * row_threads + threadIdx.x; i < n;
       i += all) {
    dy[i] = store<T>(L::gradient(load(y[i]), static_cast<Real>(t[order.at(i)])) * by);
  }
}

}  // namespace detail

/// Scratch of element_loss_forward for at most @p n elements.
constexpr std::int64_t element_loss_scratch_bytes(std::int64_t n) {
  return std::int64_t{detail::element_loss_blocks(n)} * static_cast<std::int64_t>(sizeof(double));
}

/// *loss = the sum over all elements of L::loss(y, t) / divisor.
///
/// Shapes: y, t (n), t in its own order.
/// Cost:   reads y and t once; bound by memory. One launch, or two where n > 4096.
/// Order:  element i goes to thread i mod (256 blocks), in double; then as in join_lanes(), and the
///         blocks as in ordered_sum().
/// @pre    scratch has element_loss_scratch_bytes(n)
template <class L, class T>
void element_loss_forward(Stream const& stream, T const* y, float const* t, TargetOrder order,
                          std::int64_t n, double divisor, double* loss, std::byte* scratch) {
  unsigned const blocks = detail::element_loss_blocks(n);
  auto* const sums = reinterpret_cast<double*>(scratch);
  launch(detail::element_losses_kernel<L, T>, blocks, row_threads, stream, y, t, order, n,
         blocks > 1 ? 1.0 : divisor, blocks > 1 ? sums : loss);
  if (blocks > 1) {
    ordered_sum<double>(stream, sums, blocks, divisor, loss);
  }
}

/// dy = L::gradient(y, t) * scale, times *loss_scale where that is not null.
///
/// Shapes: y, t (n), t in its own order; dy (n), which may be y.
template <class L, class T>
void element_loss_gradient(Stream const& stream, T const* y, float const* t, TargetOrder order,
                           std::int64_t n, double scale, T* dy, float const* loss_scale = nullptr) {
  using Real = ComputeType<T>;
  launch(detail::element_loss_gradient_kernel<L, T>, blocks_for(n, 4 * row_threads), row_threads,
         stream, y, t, order, n, static_cast<Real>(scale), loss_scale, dy);
}

}  // namespace tandem::cuda
