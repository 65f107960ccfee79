// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RandomErasing: a rectangle of the image is painted over.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/image/random_words.hpp>
#include <tandem/data/transform.hpp>

namespace tandem {

/// With `probability`, a rectangle of a uniform part of the area, whose ratio of height to width is
/// uniform in its logarithm, becomes `value`; torchvision's transform and its defaults. Behind
/// Normalize a value of 0 is the mean colour.
///
/// Source: Zhong et al., arXiv:1708.04896
struct RandomErasing {
  double probability = 0.5;
  double min_area = 0.02;  ///< of the whole
  double max_area = 0.33;
  double min_ratio = 0.3;
  double max_ratio = 3.3;
  float value = 0;

  TANDEM_ONCE [[nodiscard]] Shape output(Shape const& in) const;

  TANDEM_ONCE void apply(std::span<float> x, Shape const& in, Random4 const& bits) const;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE Shape RandomErasing::output(Shape const& in) const {
  expects(detail::is_image(in), "RandomErasing: the sample must be an image (C, H, W)");
  expects(probability >= 0 && probability <= 1, "RandomErasing: probability is in [0, 1]");
  expects(min_area > 0 && min_area <= max_area && max_area <= 1,
          "RandomErasing: 0 < min_area <= max_area <= 1, of the image's area");
  expects(min_ratio > 0 && min_ratio <= max_ratio && max_ratio <= 1000,
          "RandomErasing: 0 < min_ratio <= max_ratio <= 1000, of height to width");
  return in;
}

TANDEM_ONCE void RandomErasing::apply(std::span<float> x, Shape const& in,
                                      Random4 const& bits) const {
  detail::RandomWords random{bits};
  if (random.between(0, 1) >= probability) {
    return;
  }
  double const area = static_cast<double>(in[1]) * in[2];
  for (int attempt = 0; attempt < 10; ++attempt) {
    double const part = area * random.between(min_area, max_area);
    double const ratio = std::exp(random.between(std::log(min_ratio), std::log(max_ratio)));
    double const h = std::nearbyint(std::sqrt(part * ratio));
    double const w = std::nearbyint(std::sqrt(part / ratio));
    if (h >= 1 && h < in[1] && w >= 1 && w < in[2]) {
      std::ptrdiff_t const top = random.below(in[1] - static_cast<int>(h) + 1);
      std::ptrdiff_t const left = random.below(in[2] - static_cast<int>(w) + 1);
      for (std::ptrdiff_t c = 0; c < in[0]; ++c) {
        for (std::ptrdiff_t r = top; r < top + static_cast<std::ptrdiff_t>(h); ++r) {
          std::fill_n(x.data() + (c * in[1] + r) * in[2] + left, static_cast<std::ptrdiff_t>(w),
                      value);
        }
      }
      return;
    }
  }
}

}  // namespace tandem

#endif
