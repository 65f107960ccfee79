// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RandAugment: some operations out of fourteen, all as strong.

#include <cmath>
#include <numbers>
#include <span>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/image/colour.hpp>
#include <tandem/data/image/random_words.hpp>
#include <tandem/data/transform.hpp>

namespace tandem {

/// What RandAugment draws from.
enum class AugmentOp {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  saturation,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize
};

/// `ops` operations one after the other, each uniform out of AugmentOp's fourteen, of `magnitude`
/// out of 0 to 30, half of them in the other direction; torchvision's transform, its ranges and its
/// nearest pixels. For images of 1 or 3 channels with pixels in [0, 1]: before Normalize.
///
/// Cost:   a pass or two over the sample for each operation; some take memory for it.
/// Source: Cubuk, Zoph, Shlens, Le, arXiv:1909.13719
struct RandAugment {
  int ops = 2;
  int magnitude = 9;
  float fill = 0;  ///< of pixels that come from outside

  TANDEM_ONCE [[nodiscard]] Shape output(Shape const& in) const;

  TANDEM_ONCE void apply(std::span<float> x, Shape const& in, Random4 const& bits) const;

  /// One operation.
  TANDEM_ONCE void run(AugmentOp op, std::span<float> x, Shape const& in, bool is_reversed) const;

 private:
  // Against the clock, around the middle.
  TANDEM_ONCE void rotate(std::span<float> x, Shape const& in, double degrees) const;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE Shape RandAugment::output(Shape const& in) const {
  expects(detail::is_image(in) && (in[0] == 1 || in[0] == 3),
          "RandAugment: the sample must be an image (C, H, W) with C of 1 or 3");
  expects(ops >= 0 && ops <= 100 && magnitude >= 0 && magnitude <= 30,
          "RandAugment: ops is from 0 to 100, magnitude from 0 to 30");
  expects(fill >= 0 && fill <= 1, "RandAugment: fill is in [0, 1], as pixels are");
  return in;
}

TANDEM_ONCE void RandAugment::apply(std::span<float> x, Shape const& in,
                                    Random4 const& bits) const {
  detail::RandomWords random{bits};
  for (int i = 0; i < ops; ++i) {
    auto const op = static_cast<AugmentOp>(random.below(14));
    bool const is_reversed = random.below(2) == 1;
    run(op, x, in, is_reversed);
  }
}

TANDEM_ONCE void RandAugment::run(AugmentOp op, std::span<float> x, Shape const& in,
                                  bool is_reversed) const {
  double const strength = magnitude / 30.0;
  double const sign = is_reversed ? -1.0 : 1.0;
  double const shear = sign * 0.3 * strength;
  auto const factor = static_cast<float>(1.0 + sign * 0.9 * strength);
  auto const pixels = [&](int extent) {
    return std::trunc(sign * 150.0 / 331.0 * extent * strength);
  };
  switch (op) {
    case AugmentOp::identity:
      return;
    case AugmentOp::shear_x:
      return detail::warp(x, in, {.b = shear}, fill);
    case AugmentOp::shear_y:
      return detail::warp(x, in, {.d = shear}, fill);
    case AugmentOp::translate_x:
      return detail::warp(x, in, {.c = -pixels(in[2])}, fill);
    case AugmentOp::translate_y:
      return detail::warp(x, in, {.f = -pixels(in[1])}, fill);
    case AugmentOp::rotate:
      return rotate(x, in, sign * 30.0 * strength);
    case AugmentOp::brightness:
      return detail::adjust_brightness(x, factor);
    case AugmentOp::saturation:
      return detail::adjust_saturation(x, in, factor);
    case AugmentOp::contrast:
      return detail::adjust_contrast(x, in, factor);
    case AugmentOp::sharpness:
      return detail::adjust_sharpness(x, in, factor);
    case AugmentOp::posterize:
      return detail::posterize(x, 8 - static_cast<int>(std::nearbyint(4.0 * strength)));
    case AugmentOp::solarize:
      return detail::solarize(x, static_cast<float>(1.0 - strength));
    case AugmentOp::auto_contrast:
      return detail::auto_contrast(x, in);
    case AugmentOp::equalize:
      return detail::equalize(x, in);
  }
}

TANDEM_ONCE void RandAugment::rotate(std::span<float> x, Shape const& in, double degrees) const {
  double const angle = -degrees * std::numbers::pi / 180.0;
  double const c = std::cos(angle);
  double const s = std::sin(angle);
  double const middle = in[2] / 2.0;
  double const centre = in[1] / 2.0;
  detail::warp(x, in,
               {c, s, middle - c * middle - s * centre, -s, c, centre + s * middle - c * centre},
               fill);
}

}  // namespace tandem

#endif
