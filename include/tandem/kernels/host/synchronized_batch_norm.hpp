// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The halves of a batch normalisation whose batch is spread over replicas: sums of the own part,
/// then, when they have been added, what follows from the sums of all.
///
/// With the statistics of all, forward is batch_norm_evaluation_forward, and the gradients to gain
/// and bias are batch_norm_parameter_gradient of the own part.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/batch_norm_sums.hpp>
#include <tandem/kernels/host/batch_norm.hpp>
#include <tandem/kernels/host/batch_norm_evaluation.hpp>
#include <tandem/kernels/host/lanes.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

/// The sums of x - shift and of its square, each channel over B and pixels, and their number.
///
/// Shapes: x (B, C, pixels), shift (C).
/// Cost:   reads x twice; bound by memory.
/// Order:  mean and variance as in batch_norm_forward, then the sums from them in double.
/// @pre    B and pixels are 1 or more
template <class T>
TANDEM_NOINLINE void batch_norm_local_sums(Team& team, int batch, int channels, std::int64_t pixels,
                                           T const* x, T const* shift, BatchNormSums const& sums) {
  double const count = static_cast<double>(batch * pixels);
  *sums.count = count;
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
      set_shifted_sums(sums, c, count, {static_cast<double>(center), spread},
                       static_cast<double>(shift[c]));
    }
  });
}

/// The statistics of all that has been added to @p sums; (C) each.
template <class T>
void batch_norm_joint_statistics(int channels, T const* shift, BatchNormSums const& sums, T epsilon,
                                 T* mean, T* inverse_deviation, T* variance) {
  for (int c = 0; c < channels; ++c) {
    ChannelMoments const joint = moments_of(sums, c, static_cast<double>(shift[c]));
    mean[c] = static_cast<T>(joint.mean);
    variance[c] = static_cast<T>(joint.variance);
    inverse_deviation[c] = detail::inverse_deviation_of(variance[c], epsilon);
  }
}

/// The sums of dy and of dy (x - mean), each channel over B and pixels, and their number.
///
/// Shapes: x, dy (B, C, pixels), mean (C).
/// Cost:   reads x and dy; bound by memory.
/// Order:  the sums as in batch_norm_forward.
template <class T>
TANDEM_NOINLINE void batch_norm_local_gradient_sums(Team& team, int batch, int channels,
                                                    std::int64_t pixels, T const* x, T const* dy,
                                                    T const* mean, BatchNormSums const& sums) {
  *sums.count = static_cast<double>(batch * pixels);
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const center = mean[c];
      auto const total = [&](auto const& term) {
        return detail::channel_sum<T>(batch, channels, pixels, c, term);
      };
      sums.first[c] = total([=](std::int64_t i) { return dy[i]; });
      sums.second[c] = total([=](std::int64_t i) { return dy[i] * (x[i] - center); });
    }
  });
}

/// batch_norm_input_gradient with the sums of dy and dy (x - mean) over all replicas.
///
/// Shapes: x, dy (B, C, pixels), gain, mean, inverse_deviation (C); dx (B, C, pixels), may be dy.
/// Cost:   reads x and dy, writes dx; bound by memory.
template <class T>
TANDEM_NOINLINE void batch_norm_joint_input_gradient(Team& team, int batch, int channels,
                                                     std::int64_t pixels, T const* x, T const* dy,
                                                     T const* gain, T const* mean,
                                                     T const* inverse_deviation,
                                                     BatchNormSums const& sums, T* dx) {
  team.parallel_for(channels, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      T const center = mean[c];
      T const inverse = inverse_deviation[c];
      T const offset = static_cast<T>(sums.first[c] / *sums.count);
      T const slope = static_cast<T>(sums.second[c] / *sums.count) * inverse * inverse;
      T const scale = inverse * gain[c];
      detail::each_of_channel(batch, channels, pixels, c, [=](std::int64_t i) {
        T const rest = dy[i] - offset;
        dx[i] = (rest - (x[i] - center) * slope) * scale;
      });
    }
  });
}

}  // namespace tandem::host
