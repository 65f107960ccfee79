// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the passes of a batch norm hand to each other, on every backend: (C) numbers each.

#include <cstddef>
#include <cstdint>

namespace tandem {

/// What forward leaves to the gradients, and input_gradient to weight_gradient.
template <class P>
struct BatchNormSaved {
  P* mean;
  P* inverse_deviation;  ///< 1 / sqrt(variance + epsilon)
  P* variance;           ///< biased
  P* sum_dy;             ///< dy here is behind the mask of a fused ReLU
  P* sum_dy_x;           ///< of dy (x - mean)

  static constexpr std::int64_t bytes(int channels) {
    return 5 * std::int64_t{channels} * static_cast<std::int64_t>(sizeof(P));
  }
  static BatchNormSaved at(std::byte* memory, int channels) {
    P* const first = reinterpret_cast<P*>(memory);
    std::int64_t const c = channels;
    return {first, first + c, first + 2 * c, first + 3 * c, first + 4 * c};
  }
};

/// Where weight_gradient adds or writes.
template <class P>
struct BatchNormGradients {
  P* gain;
  P* bias;
  P* mean;                         ///< what the microbatch adds to the step's average of means
  P* variance;                     ///< of unbiased variances
  P const* absorbed = nullptr;     ///< a bias that x lacks, and the mean is to have; or null
  P* absorbed_gradient = nullptr;  ///< of that bias, which is 0: where it is to be overwritten
};

}  // namespace tandem
