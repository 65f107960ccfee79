// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Batch normalisation with running statistics, which are constants to the gradients.
///
/// Each element is a fixed affine map of itself, so nothing depends on the batch's neighbours.

#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/batch_norm.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

namespace detail {

template <class T>
T inverse_deviation_of(T variance, T epsilon) {
  return static_cast<T>(1.0 /
                        std::sqrt(static_cast<double>(variance) + static_cast<double>(epsilon)));
}

}  // namespace detail

/// y = (x - running_mean) / sqrt(running_variance + epsilon) * gain + bias.
///
/// Shapes: x (B, C, pixels), the others (C); y (B, C, pixels), which may be x.
/// Cost:   reads and writes each element once; bound by memory.
template <class T>
TANDEM_NOINLINE void batch_norm_evaluation_forward(Team& team, int batch, int channels,
                                                   std::int64_t pixels, T const* x, T const* gain,
                                                   T const* bias, T const* running_mean,
                                                   T const* running_variance, T epsilon, T* y) {
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const scale = detail::inverse_deviation_of(running_variance[c], epsilon) * gain[c];
      T const center = running_mean[c];
      T const shift = bias[c];
      detail::each_of_channel(batch, channels, pixels, c,
                              [=](std::int64_t i) { y[i] = (x[i] - center) * scale + shift; });
    }
  });
}

/// dx = dy * gain / sqrt(running_variance + epsilon).
///
/// Shapes: dy (B, C, pixels), gain, running_variance (C); dx (B, C, pixels), which may be dy.
/// Cost:   reads and writes each element once; bound by memory.
template <class T>
TANDEM_NOINLINE void batch_norm_evaluation_input_gradient(Team& team, int batch, int channels,
                                                          std::int64_t pixels, T const* dy,
                                                          T const* gain, T const* running_variance,
                                                          T epsilon, T* dx) {
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const scale = detail::inverse_deviation_of(running_variance[c], epsilon) * gain[c];
      detail::each_of_channel(batch, channels, pixels, c,
                              [=](std::int64_t i) { dx[i] = dy[i] * scale; });
    }
  });
}

/// dgain = [+=] sum(dy (x - running_mean) / deviation), dbias = [+=] sum(dy), each channel.
///
/// Shapes: x, dy (B, C, pixels), running_mean, running_variance (C); dgain, dbias (C).
/// Cost:   reads x and dy once; bound by memory.
/// Order:  each map in 16 lanes in T, then the samples in order in double.
template <class T>
TANDEM_NOINLINE void batch_norm_evaluation_parameter_gradient(Team& team, int batch, int channels,
                                                              std::int64_t pixels, T const* x,
                                                              T const* dy, T const* running_mean,
                                                              T const* running_variance, T epsilon,
                                                              T* dgain, T* dbias, bool accumulate) {
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const center = running_mean[c];
      auto const total = [&](auto const& term) {
        return detail::channel_sum<T>(batch, channels, pixels, c, term);
      };
      T const inverse = detail::inverse_deviation_of(running_variance[c], epsilon);
      T const sum_dy = static_cast<T>(total([=](std::int64_t i) { return dy[i]; }));
      double const sum_dy_x = total([=](std::int64_t i) { return dy[i] * (x[i] - center); });
      T const sum_dy_xhat = static_cast<T>(sum_dy_x * static_cast<double>(inverse));
      dgain[c] = accumulate ? dgain[c] + sum_dy_xhat : sum_dy_xhat;
      dbias[c] = accumulate ? dbias[c] + sum_dy : sum_dy;
    }
  });
}

}  // namespace tandem::host
