// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BatchNormSums: what replicas add to normalise a batch that is spread over them.
///
/// Forward adds the sums of x - shift and of (x - shift)² in double, the shift being the running
/// mean, which all replicas have alike. Backward adds those of dy and of dy (x - mean).

#include <cstdint>

#include <tandem/core/config.hpp>

namespace tandem {

/// Two sums of each channel and the number of its values, one behind another.
struct BatchNormSums {
  double* first;   ///< (C)
  double* second;  ///< (C)
  double* count;   ///< one

  static constexpr std::int64_t elements(int channels) { return 2 * std::int64_t{channels} + 1; }
  static BatchNormSums at(double* memory, int channels) {
    return {memory, memory + channels, memory + 2 * std::int64_t{channels}};
  }
};

/// Mean and biased variance of a channel, in double.
struct ChannelMoments {
  double mean;
  double variance;
};

/// The sums of @p count values of x - shift and of (x - shift)², which can be added to others'.
TANDEM_HOST_DEVICE inline void set_shifted_sums(BatchNormSums const& sums, std::int64_t c,
                                                double count, ChannelMoments const& moments,
                                                double shift) {
  double const distance = moments.mean - shift;
  sums.first[c] = count * distance;
  sums.second[c] = count * (moments.variance + distance * distance);
}

/// The moments of all values that have been added. Of double's 16 digits the variance loses as many
/// as (mean - shift)² / variance has, and no more: the moments of each replica were exact.
TANDEM_HOST_DEVICE inline ChannelMoments moments_of(BatchNormSums const& sums, std::int64_t c,
                                                    double shift) {
  double const distance = sums.first[c] / *sums.count;
  double const variance = sums.second[c] / *sums.count - distance * distance;
  return {shift + distance, variance < 0 ? 0.0 : variance};  // a NaN stays one
}

/// count / (count - 1); a single value has no unbiased variance and passes the biased one.
TANDEM_HOST_DEVICE inline double unbiased_factor(double count) {
  return count > 1 ? count / (count - 1) : 1.0;
}

}  // namespace tandem
