// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Operations on the colours of one image in place: what ColorJitter and RandAugment are made of.
///
/// Images are (C, H, W) with C of 1 or 3 and pixels in [0, 1]. They compute what torchvision's
/// functions of these names do on floats; those that are about bytes round to 255ths first.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/shape.hpp>

namespace tandem::detail {

inline std::size_t pixels_of(Shape const& shape) {
  return static_cast<std::size_t>(shape[1]) * static_cast<std::size_t>(shape[2]);
}

inline float in_range(float value) { return std::clamp(value, 0.0F, 1.0F); }

/// The byte that a pixel in [0, 1] is; 0 of what is no number.
inline int byte_of(float value) {
  return value > 0.0F ? static_cast<int>(std::min(value, 1.0F) * 255.0F + 0.5F) : 0;
}

inline float grey_at(std::span<float const> x, std::size_t pixels, std::size_t i, int channels) {
  return channels == 1 ? x[i]
                       : 0.2989F * x[i] + 0.587F * x[pixels + i] + 0.114F * x[2 * pixels + i];
}

/// x = factor x + (1 - factor) other, cut to [0, 1].
inline float blend(float x, float other, float factor) {
  return in_range(factor * x + (1.0F - factor) * other);
}

inline void adjust_brightness(std::span<float> x, float factor) {
  for (float& value : x) {
    value = in_range(factor * value);
  }
}

/// Towards or from the mean of the grey image.
TANDEM_ONCE void adjust_contrast(std::span<float> x, Shape const& shape, float factor);

/// Towards or from the grey image.
TANDEM_ONCE void adjust_saturation(std::span<float> x, Shape const& shape, float factor);

/// Turns the hue by @p turn of the circle: in HSV and back.
TANDEM_ONCE void adjust_hue(std::span<float> x, Shape const& shape, float turn);

/// Towards or from the image smoothed by (1 1 1; 1 5 1; 1 1 1) / 13; the border stays.
TANDEM_ONCE void adjust_sharpness(std::span<float> x, Shape const& shape, float factor);

/// Leaves the @p bits highest bits of each byte.
inline void posterize(std::span<float> x, int bits) {
  int const mask = 0xFF & ~(0xFF >> bits);
  for (float& value : x) {
    value = static_cast<float>(byte_of(value) & mask) / 255.0F;
  }
}

/// Inverts what is at least @p threshold.
inline void solarize(std::span<float> x, float threshold) {
  for (float& value : x) {
    value = value >= threshold ? 1.0F - value : value;
  }
}

/// Stretches each channel to [0, 1].
TANDEM_ONCE void auto_contrast(std::span<float> x, Shape const& shape);

/// Makes the bytes of each channel as frequent as one another, as Pillow.
TANDEM_ONCE void equalize(std::span<float> x, Shape const& shape);

/// Where a pixel comes from: column a i + b r + c and row d i + e r + f, of centres i and r.
struct Affine {
  double a = 1;
  double b = 0;
  double c = 0;
  double d = 0;
  double e = 1;
  double f = 0;
};

/// Moves pixels, the nearest one to where each comes from; @p fill outside.
TANDEM_ONCE void warp(std::span<float> x, Shape const& shape, Affine const& from, float fill);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void adjust_contrast(std::span<float> x, Shape const& shape, float factor) {
  std::size_t const pixels = pixels_of(shape);
  double sum = 0;
  for (std::size_t i = 0; i < pixels; ++i) {
    sum += static_cast<double>(grey_at(x, pixels, i, shape[0]));
  }
  float const mean = static_cast<float>(sum / static_cast<double>(pixels));
  for (float& value : x) {
    value = blend(value, mean, factor);
  }
}

TANDEM_ONCE void adjust_saturation(std::span<float> x, Shape const& shape, float factor) {
  std::size_t const pixels = pixels_of(shape);
  for (std::size_t i = 0; shape[0] == 3 && i < pixels; ++i) {
    float const grey = grey_at(x, pixels, i, 3);
    for (std::size_t c = 0; c < 3; ++c) {
      x[c * pixels + i] = blend(x[c * pixels + i], grey, factor);
    }
  }
}

TANDEM_ONCE void adjust_hue(std::span<float> x, Shape const& shape, float turn) {
  std::size_t const pixels = pixels_of(shape);
  for (std::size_t i = 0; shape[0] == 3 && i < pixels; ++i) {
    float& r = x[i];
    float& g = x[pixels + i];
    float& b = x[2 * pixels + i];
    float const most = std::max({r, g, b});
    float const range = most - std::min({r, g, b});
    if (range <= 0.0F) {
      continue;  // grey has no hue
    }
    float const sixth = most == r   ? (g - b) / range
                        : most == g ? 2.0F + (b - r) / range
                                    : 4.0F + (r - g) / range;
    float hue = sixth / 6.0F + turn;
    hue -= std::floor(hue);
    // A channel falls with the distance of its hue from this one, within a third of the circle.
    auto const channel = [&](float place) {
      float const distance = std::abs(std::remainder(hue - place / 3.0F, 1.0F)) * 6.0F;
      return most - range * std::clamp(distance - 1.0F, 0.0F, 1.0F);
    };
    r = channel(0);
    g = channel(1);
    b = channel(2);
  }
}

TANDEM_ONCE void adjust_sharpness(std::span<float> x, Shape const& shape, float factor) {
  auto const height = static_cast<std::size_t>(shape[1]);
  auto const width = static_cast<std::size_t>(shape[2]);
  std::vector<float> const before(x.begin(), x.end());
  for (std::size_t c = 0; c < static_cast<std::size_t>(shape[0]); ++c) {
    for (std::size_t r = 1; r + 1 < height; ++r) {
      for (std::size_t i = 1; i + 1 < width; ++i) {
        float const* const at = before.data() + (c * height + r) * width + i;
        float sum = 4.0F * *at;
        for (std::size_t row = 0; row < 3; ++row) {
          float const* const near = at - width + row * width;
          sum += near[-1] + near[0] + near[1];
        }
        x[(c * height + r) * width + i] = blend(*at, sum / 13.0F, factor);
      }
    }
  }
}

TANDEM_ONCE void auto_contrast(std::span<float> x, Shape const& shape) {
  std::size_t const pixels = pixels_of(shape);
  for (std::size_t c = 0; c < static_cast<std::size_t>(shape[0]); ++c) {
    auto const plane = x.subspan(c * pixels, pixels);
    auto const [low, high] = std::minmax_element(plane.begin(), plane.end());
    float const least = *low;
    float const range = *high - least;
    for (float& value : plane) {
      value = range > 0.0F ? in_range((value - least) / range) : value;
    }
  }
}

TANDEM_ONCE void equalize(std::span<float> x, Shape const& shape) {
  std::size_t const pixels = pixels_of(shape);
  for (std::size_t c = 0; c < static_cast<std::size_t>(shape[0]); ++c) {
    auto const plane = x.subspan(c * pixels, pixels);
    std::array<std::size_t, 256> count{};
    for (float const value : plane) {
      ++count[static_cast<std::size_t>(byte_of(value))];
    }
    std::size_t last = 255;
    while (last > 0 && count[last] == 0) {
      --last;
    }
    std::size_t const step = (pixels - count[last]) / 255;
    if (step == 0) {
      continue;
    }
    std::array<float, 256> table{};
    std::size_t sum = step / 2;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      table[byte] = static_cast<float>(std::min<std::size_t>(sum / step, 255)) / 255.0F;
      sum += count[byte];
    }
    for (float& value : plane) {
      value = table[static_cast<std::size_t>(byte_of(value))];
    }
  }
}

TANDEM_ONCE void warp(std::span<float> x, Shape const& shape, Affine const& from, float fill) {
  std::size_t const pixels = pixels_of(shape);
  std::vector<float> const before(x.begin(), x.end());
  for (int r = 0; r < shape[1]; ++r) {
    for (int i = 0; i < shape[2]; ++i) {
      double const column = from.a * (i + 0.5) + from.b * (r + 0.5) + from.c;
      double const row = from.d * (i + 0.5) + from.e * (r + 0.5) + from.f;
      bool const is_inside = column >= 0 && column < shape[2] && row >= 0 && row < shape[1];
      auto const width = static_cast<std::size_t>(shape[2]);
      auto const to = static_cast<std::size_t>(r) * width + static_cast<std::size_t>(i);
      std::size_t const at =
          is_inside ? static_cast<std::size_t>(row) * width + static_cast<std::size_t>(column) : 0;
      for (std::size_t c = 0; c < static_cast<std::size_t>(shape[0]); ++c) {
        x[c * pixels + to] = is_inside ? before[c * pixels + at] : fill;
      }
    }
  }
}

}  // namespace tandem::detail

#endif
