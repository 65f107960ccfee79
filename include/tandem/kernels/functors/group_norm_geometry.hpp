// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GroupNormGeometry: the sizes of a group norm, and where its forward pass leaves what.

#include <cstdint>

#include <tandem/core/config.hpp>

namespace tandem {

/// Images of `pixels` pixels, or vectors of one, whose channels are in groups of `width`.
struct GroupNormGeometry {
  int channels = 0;
  int groups = 1;
  std::int64_t pixels = 1;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int width() const { return channels / groups; }
  /// Of one group of a sample.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t elements() const {
    return width() * pixels;
  }
  /// Numbers saved of a sample.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t saved() const {
    return 2 * (std::int64_t{groups} + channels);
  }
};

/// Of one sample: mean and 1 / sqrt(variance + epsilon) of each group from forward, the sums of dy
/// and of dy times the normalised x of each channel from the gradient.
template <class P>
struct GroupNormSaved {
  P* mean;
  P* inverse;
  P* dy;
  P* dy_normalised;

  TANDEM_HOST_DEVICE GroupNormSaved(GroupNormGeometry const& g, P* saved, std::int64_t sample)
      : mean{saved + sample * g.saved()},
        inverse{mean + g.groups},
        dy{inverse + g.groups},
        dy_normalised{dy + g.channels} {}
};

}  // namespace tandem
