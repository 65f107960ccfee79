// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Batch normalisation of each channel over (B, pixels), in training, with the batch's statistics.
///
/// The kernels with constant statistics stand in batch_norm_evaluation.hpp.
/// Source: Ioffe, Szegedy, arXiv:1502.03167, section 3.

#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/lanes.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

namespace detail {

/// Calls f(i) for each element i of one channel.
template <class Function>
void each_of_channel(int batch, int channels, std::int64_t pixels, std::int64_t channel,
                     Function const& f) {
  for (std::int64_t s = 0; s < batch; ++s) {
    std::int64_t const first = (s * channels + channel) * pixels;
    for (std::int64_t i = first; i < first + pixels; ++i) {
      f(i);
    }
  }
}

}  // namespace detail

/// y = (x - mean(x)) / sqrt(var(x) + epsilon) * gain + bias, each channel over B and pixels.
///
/// Shapes: x (B, C, pixels), gain (C), bias (C); y (B, C, pixels), which may be x if x is not
///         needed again; mean (C), inverse_deviation (C), variance (C).
/// Saves:  mean and 1 / sqrt(var + epsilon) for the gradients; `variance` is the biased one, which
///         batch_norm_statistics needs.
/// Cost:   reads x three times, writes y once; bound by memory.
/// Order:  two passes (mean, then squares of x - mean); each map in 16 lanes in T, then the samples
///         in order in double.
template <class T>
TANDEM_NOINLINE void batch_norm_forward(Team& team, int batch, int channels, std::int64_t pixels,
                                        T const* x, T const* gain, T const* bias, T epsilon, T* y,
                                        T* mean, T* inverse_deviation, T* variance) {
  double const count = static_cast<double>(batch * pixels);
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      auto const total = [&](auto const& term) {
        return detail::channel_sum<T>(batch, channels, pixels, c, term);
      };
      T const center = static_cast<T>(total([=](std::int64_t i) { return x[i]; }) / count);
      double const spread = total([=](std::int64_t i) {
                              T const distance = x[i] - center;
                              return distance * distance;
                            }) /
                            count;
      T const inverse = static_cast<T>(1.0 / std::sqrt(spread + static_cast<double>(epsilon)));
      mean[c] = center;
      inverse_deviation[c] = inverse;
      variance[c] = static_cast<T>(spread);
      T const scale = inverse * gain[c];
      T const shift = bias[c];
      detail::each_of_channel(batch, channels, pixels, c,
                              [=](std::int64_t i) { y[i] = (x[i] - center) * scale + shift; });
    }
  });
}

/// The gradient of batch_norm_forward to x, through mean and variance also:
/// dx = gain / deviation * (dy - mean(dy) - xhat mean(dy xhat)), xhat = (x - mean) / deviation.
///
/// Shapes: x, dy (B, C, pixels), gain, mean, inverse_deviation (C); dx (B, C, pixels), may be dy.
/// Cost:   reads x and dy twice, writes dx once; bound by memory.
/// Order:  the sums as in batch_norm_forward.
template <class T>
TANDEM_NOINLINE void batch_norm_input_gradient(Team& team, int batch, int channels,
                                               std::int64_t pixels, T const* x, T const* dy,
                                               T const* gain, T const* mean,
                                               T const* inverse_deviation, T* dx) {
  double const count = static_cast<double>(batch * pixels);
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const center = mean[c];
      T const inverse = inverse_deviation[c];
      auto const total = [&](auto const& term) {
        return detail::channel_sum<T>(batch, channels, pixels, c, term);
      };
      double const sum_dy = total([=](std::int64_t i) { return dy[i]; });
      double const sum_dy_x = total([=](std::int64_t i) { return dy[i] * (x[i] - center); });
      T const offset = static_cast<T>(sum_dy / count);
      T const slope = static_cast<T>(sum_dy_x / count) * inverse * inverse;
      T const scale = inverse * gain[c];
      detail::each_of_channel(batch, channels, pixels, c, [=](std::int64_t i) {
        T const rest = dy[i] - offset;
        dx[i] = (rest - (x[i] - center) * slope) * scale;
      });
    }
  });
}

/// dgain = [+=] sum(dy xhat), dbias = [+=] sum(dy), each channel over B and pixels.
///
/// Shapes: x, dy (B, C, pixels), mean, inverse_deviation (C); dgain, dbias (C).
/// Cost:   reads x and dy once; bound by memory.
/// Order:  as batch_norm_forward; with @p accumulate the batch's sum is added as one term.
template <class T>
TANDEM_NOINLINE void batch_norm_parameter_gradient(Team& team, int batch, int channels,
                                                   std::int64_t pixels, T const* x, T const* dy,
                                                   T const* mean, T const* inverse_deviation,
                                                   T* dgain, T* dbias, bool accumulate) {
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const center = mean[c];
      auto const total = [&](auto const& term) {
        return detail::channel_sum<T>(batch, channels, pixels, c, term);
      };
      T const sum_dy = static_cast<T>(total([=](std::int64_t i) { return dy[i]; }));
      double const sum_dy_x = total([=](std::int64_t i) { return dy[i] * (x[i] - center); });
      T const sum_dy_xhat = static_cast<T>(sum_dy_x * static_cast<double>(inverse_deviation[c]));
      dgain[c] = accumulate ? dgain[c] + sum_dy_xhat : sum_dy_xhat;
      dbias[c] = accumulate ? dbias[c] + sum_dy : sum_dy;
    }
  });
}

/// out_mean = [+=] weight * mean, out_variance = [+=] weight * variance * count / (count - 1).
///
/// What one batch (of `count` = B · pixels elements a channel) adds to the average of the
/// statistics over all the batches of a step; the outputs travel with the gradients. A count of 1
/// has no unbiased variance and passes the biased one, 0.
///
/// Shapes: mean, variance (biased), out_mean, out_variance (C).
template <class T>
TANDEM_NOINLINE void batch_norm_statistics(Team& team, int channels, std::int64_t count, T weight,
                                           T const* mean, T const* variance, T* out_mean,
                                           T* out_variance, bool accumulate) {
  double const unbiased =
      count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1.0;
  T const factor = static_cast<T>(static_cast<double>(weight) * unbiased);
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      out_mean[c] = weight * mean[c] + (accumulate ? out_mean[c] : T{0});
      out_variance[c] = factor * variance[c] + (accumulate ? out_variance[c] : T{0});
    }
  });
}

}  // namespace tandem::host
