// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ColorJitter: random brightness, contrast, saturation and hue.

#include <span>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/image/colour.hpp>
#include <tandem/data/image/random_words.hpp>
#include <tandem/data/transform.hpp>

namespace tandem {

/// Brightness, contrast and saturation times a uniform factor in [1 - v, 1 + v], not below 0, and
/// the hue turned by a uniform part of the circle in [-hue, hue], in random order; torchvision's
/// transform on floats. For images of 1 or 3 channels with pixels in [0, 1]: before Normalize.
struct ColorJitter {
  float brightness = 0;
  float contrast = 0;
  float saturation = 0;
  float hue = 0;  ///< at most 1/2

  TANDEM_ONCE [[nodiscard]] Shape output(Shape const& in) const;

  TANDEM_ONCE void apply(std::span<float> x, Shape const& in, Random4 const& bits) const;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE Shape ColorJitter::output(Shape const& in) const {
  expects(detail::is_image(in) && (in[0] == 1 || in[0] == 3),
          "ColorJitter: the sample must be an image (C, H, W) with C of 1 or 3");
  auto const within = [](float value, float most) { return value >= 0 && value <= most; };
  expects(within(brightness, 1000) && within(contrast, 1000) && within(saturation, 1000) &&
              within(hue, 0.5F),
          "ColorJitter: brightness, contrast and saturation are at least 0, hue is in [0, 0.5]");
  return in;
}

TANDEM_ONCE void ColorJitter::apply(std::span<float> x, Shape const& in,
                                    Random4 const& bits) const {
  detail::RandomWords random{bits};
  auto const factor = [&](float most) {
    return static_cast<float>(random.between(most < 1 ? 1.0 - static_cast<double>(most) : 0.0,
                                             1.0 + static_cast<double>(most)));
  };
  float const factors[3] = {factor(brightness), factor(contrast), factor(saturation)};
  float const turn =
      static_cast<float>(random.between(-static_cast<double>(hue), static_cast<double>(hue)));
  int order[4] = {0, 1, 2, 3};
  for (int i = 3; i > 0; --i) {
    std::swap(order[i], order[random.below(i + 1)]);
  }
  for (int const which : order) {
    if (which == 0 && brightness > 0) {
      detail::adjust_brightness(x, factors[0]);
    } else if (which == 1 && contrast > 0) {
      detail::adjust_contrast(x, in, factors[1]);
    } else if (which == 2 && saturation > 0) {
      detail::adjust_saturation(x, in, factors[2]);
    } else if (which == 3 && hue > 0) {
      detail::adjust_hue(x, in, turn);
    }
  }
}

}  // namespace tandem

#endif
