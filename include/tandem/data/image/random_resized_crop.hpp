// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RandomResizedCrop: a random piece of an image, resized to the whole.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/image/random_words.hpp>
#include <tandem/data/image/resample.hpp>
#include <tandem/data/transform.hpp>

namespace tandem {

/// A piece of a uniform part of the area, whose ratio of width to height is uniform in its
/// logarithm; torchvision's transform and its defaults. As a transform it takes the piece of the
/// sample and makes it as large as that; ImageFolderOptions::random_crop takes it of the file's
/// image.
///
/// Cost:   as resize(), and memory for a sample.
/// Source: Szegedy et al., arXiv:1409.4842, section 6
struct RandomResizedCrop {
  double min_area = 0.08;  ///< of the whole
  double max_area = 1.0;
  double min_ratio = 3.0 / 4.0;
  double max_ratio = 4.0 / 3.0;

  TANDEM_ONCE [[nodiscard]] Shape output(Shape const& in) const;

  TANDEM_ONCE void check() const;

  TANDEM_ONCE void apply(std::span<float> x, Shape const& in, Random4 const& bits) const;

  /// The piece of an image of @p height and @p width. Ten are drawn; if none fits, it is the
  /// largest in the middle whose ratio is allowed.
  TANDEM_ONCE [[nodiscard]] PixelBox box(int height, int width, Random4 const& bits) const;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE Shape RandomResizedCrop::output(Shape const& in) const {
  expects(detail::is_image(in), "RandomResizedCrop: the sample must be an image (C, H, W)");
  check();
  return in;
}

TANDEM_ONCE void RandomResizedCrop::check() const {
  expects(min_area > 0 && min_area <= max_area && max_area <= 1,
          "RandomResizedCrop: 0 < min_area <= max_area <= 1, of the image's area");
  expects(min_ratio > 0 && min_ratio <= max_ratio && max_ratio <= 1000,
          "RandomResizedCrop: 0 < min_ratio <= max_ratio <= 1000, of width to height");
}

TANDEM_ONCE void RandomResizedCrop::apply(std::span<float> x, Shape const& in,
                                          Random4 const& bits) const {
  PixelBox const piece = box(in[1], in[2], bits);
  std::size_t const plane = static_cast<std::size_t>(in[1]) * static_cast<std::size_t>(in[2]);
  std::vector<float> out(plane);
  for (std::size_t c = 0; c < static_cast<std::size_t>(in[0]); ++c) {
    detail::resample<detail::FloatArithmetic>(x.data() + c * plane, static_cast<std::size_t>(in[2]),
                                              1, piece, in[1], in[2], {0, 0, in[1], in[2]},
                                              out.data());
    std::copy(out.begin(), out.end(), x.begin() + static_cast<std::ptrdiff_t>(c * plane));
  }
}

TANDEM_ONCE PixelBox RandomResizedCrop::box(int height, int width, Random4 const& bits) const {
  detail::RandomWords random{bits};
  double const area = static_cast<double>(height) * width;
  for (int attempt = 0; attempt < 10; ++attempt) {
    double const part = area * random.between(min_area, max_area);
    double const ratio = std::exp(random.between(std::log(min_ratio), std::log(max_ratio)));
    double const w = std::nearbyint(std::sqrt(part * ratio));
    double const h = std::nearbyint(std::sqrt(part / ratio));
    if (w >= 1 && w <= width && h >= 1 && h <= height) {
      int const rows = static_cast<int>(h);
      int const columns = static_cast<int>(w);
      int const top = random.below(height - rows + 1);
      return {top, random.below(width - columns + 1), rows, columns};
    }
  }
  double const ratio = static_cast<double>(width) / height;
  PixelBox middle{0, 0, height, width};
  if (ratio < min_ratio) {
    middle.height = std::min(height, static_cast<int>(std::nearbyint(width / min_ratio)));
  } else if (ratio > max_ratio) {
    middle.width = std::min(width, static_cast<int>(std::nearbyint(height * max_ratio)));
  }
  middle.top = (height - middle.height) / 2;
  middle.left = (width - middle.width) / 2;
  return middle;
}

}  // namespace tandem

#endif
