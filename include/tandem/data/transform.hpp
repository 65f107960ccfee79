// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Transforms of one sample: Normalize, PadTo, RandomCrop, RandomFlip; and what one of your own
/// needs.
///
/// A transform is a value with output(Shape) and apply. It works in place, on a span that holds the
/// larger of its input and its output, so that a chain of them needs no other memory.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/core/shape.hpp>

namespace tandem {

/// output(in) is the shape that a sample of shape `in` becomes, and throws ContractError where it
/// cannot. apply(x, in) overwrites the sample at the start of x by its image.
template <class T>
concept FixedTransform = requires(T const& transform, std::span<float> x, Shape const& in) {
  { transform.output(in) } -> std::same_as<Shape>;
  { transform.apply(x, in) } -> std::same_as<void>;
};

/// The same with random bits, the sample's own in each epoch. Evaluation leaves it out, so it must
/// not change the shape.
template <class T>
concept RandomTransform = requires(T const& transform, std::span<float> x, Shape const& in,
                                   Random4 const& bits) {
  { transform.output(in) } -> std::same_as<Shape>;
  { transform.apply(x, in, bits) } -> std::same_as<void>;
};

template <class T>
concept Transform = FixedTransform<T> || RandomTransform<T>;

namespace detail {

constexpr bool is_image(Shape const& shape) { return shape.rank == 3 && shape.valid(); }

/// An image as rows: row r of channel c starts at (c * height + r) * width.
struct Rows {
  explicit Rows(Shape const& shape)
      : channels{static_cast<std::size_t>(shape[0])},
        height{static_cast<std::size_t>(shape[1])},
        width{static_cast<std::size_t>(shape[2])} {}

  std::size_t channels;
  std::size_t height;
  std::size_t width;
};

}  // namespace detail

/// x = (x - mean) / std for each channel, the first axis of a sample of rank 3; a sample of lower
/// rank, such as a table's row, is one channel.
struct Normalize {
  float mean[4] = {};
  float std[4] = {};  ///< no default: one above 0 for each channel

  TANDEM_ONCE [[nodiscard]] Shape output(Shape const& in) const;

  TANDEM_ONCE void apply(std::span<float> x, Shape const& in) const;

 private:
  static int channels(Shape const& in) { return in.rank == 3 ? in[0] : 1; }
};

/// Centres an image in a larger one of zeros; a single channel is repeated for each channel asked
/// for. The odd row and column of the border are at the bottom and at the right.
struct PadTo {
  Shape shape;

  TANDEM_ONCE [[nodiscard]] Shape output(Shape const& in) const;

  /// Rows from the last to the first: none is overwritten before it has been moved.
  TANDEM_ONCE void apply(std::span<float> x, Shape const& in) const;
};

/// Pads an image by `padding` zeros on each side and takes a piece of the original size out of it,
/// each of the (2 padding + 1)^2 places being equally likely.
struct RandomCrop {
  int padding = 0;

  TANDEM_ONCE [[nodiscard]] Shape output(Shape const& in) const;

  void apply(std::span<float> x, Shape const& in, Random4 const& bits) const {
    auto const places = static_cast<std::uint32_t>(2 * padding + 1);
    shift(x, in, static_cast<int>(below(bits.word[0], places)) - padding,
          static_cast<int>(below(bits.word[1], places)) - padding);
  }

  /// out(r, c) = in(r + down, c + right), zero outside; in place, since it moves
  /// rows and pixels away from the side that it comes from.
  TANDEM_ONCE static void shift(std::span<float> x, Shape const& in, int down, int right);
};

/// Mirrors an image left to right, with probability 1/2.
struct RandomFlip {
  [[nodiscard]] Shape output(Shape const& in) const {
    expects(detail::is_image(in), "RandomFlip: the sample must be an image (C, H, W)");
    return in;
  }

  TANDEM_ONCE void apply(std::span<float> x, Shape const& in, Random4 const& bits) const;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE Shape Normalize::output(Shape const& in) const {
  expects(in.valid() && channels(in) <= 4, "Normalize: at most 4 channels");
  for (int c = 0; c < channels(in); ++c) {
    expects(is_finite(double{mean[c]}) && is_finite(double{std[c]}) && std[c] > 0.0F,
            "Normalize: give a mean and an std above 0 for each channel, both finite");
  }
  for (int c = channels(in); c < 4; ++c) {
    expects(mean[c] == 0.0F && std[c] == 0.0F,
            "Normalize: more means or stds are given than the sample has channels; a sample that "
            "is no image (C, H, W) is one channel, so scale a table's columns by a transform of "
            "your own");
  }
  return in;
}

TANDEM_ONCE void Normalize::apply(std::span<float> x, Shape const& in) const {
  std::size_t const plane = static_cast<std::size_t>(in.elements() / channels(in));
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels(in)); ++c) {
    for (float& value : x.subspan(c * plane, plane)) {
      value = (value - mean[c]) / std[c];
    }
  }
}

TANDEM_ONCE Shape PadTo::output(Shape const& in) const {
  expects(detail::is_image(in) && detail::is_image(shape),
          "PadTo: the sample and the shape to pad to must be images (C, H, W)");
  detail::Rows const from{in};
  detail::Rows const to{shape};
  expects(to.height >= from.height && to.width >= from.width,
          "PadTo: the image to pad to must be at least as high and wide as the sample");
  expects(to.channels == from.channels || from.channels == 1,
          "PadTo: only a single channel can be repeated; else the channels must be equal");
  return shape;
}

TANDEM_ONCE void PadTo::apply(std::span<float> x, Shape const& in) const {
  detail::Rows const from{in};
  detail::Rows const to{shape};
  std::size_t const top = (to.height - from.height) / 2;
  std::size_t const left = (to.width - from.width) / 2;
  for (std::size_t c = to.channels; c-- > 0;) {
    std::size_t const source = (from.channels == 1 ? 0 : c) * from.height;
    for (std::size_t r = to.height; r-- > 0;) {
      float* const row = x.data() + (c * to.height + r) * to.width;
      if (r < top || r >= top + from.height) {
        continue;
      }
      float const* const moved = x.data() + (source + r - top) * from.width;
      std::memmove(row + left, moved, from.width * sizeof(float));
      std::fill(row, row + left, 0.0F);
      std::fill(row + left + from.width, row + to.width, 0.0F);
    }
    float* const plane = x.data() + c * to.height * to.width;
    std::fill(plane, plane + top * to.width, 0.0F);
    std::fill(plane + (top + from.height) * to.width, plane + to.height * to.width, 0.0F);
  }
}

TANDEM_ONCE Shape RandomCrop::output(Shape const& in) const {
  expects(detail::is_image(in), "RandomCrop: the sample must be an image (C, H, W)");
  expects(padding >= 0 && padding < in[1] && padding < in[2],
          "RandomCrop: padding must be at least 0 and below the image's height and width");
  return in;
}

TANDEM_ONCE void RandomCrop::shift(std::span<float> x, Shape const& in, int down, int right) {
  int const height = in[1];
  int const width = in[2];
  int const kept = width - (right < 0 ? -right : right);
  for (int channel = 0; channel < in[0]; ++channel) {
    for (int step = 0; step < height; ++step) {
      int const r = down >= 0 ? step : height - 1 - step;
      float* const row = x.data() + (std::ptrdiff_t{channel} * height + r) * width;
      if (r + down < 0 || r + down >= height) {
        std::fill(row, row + width, 0.0F);
        continue;
      }
      float const* const from = row + std::ptrdiff_t{down} * width;
      std::size_t const bytes = static_cast<std::size_t>(kept) * sizeof(float);
      if (right >= 0) {
        std::memmove(row, from + right, bytes);
        std::fill(row + kept, row + width, 0.0F);
      } else {
        std::memmove(row - right, from, bytes);
        std::fill(row, row - right, 0.0F);
      }
    }
  }
}

TANDEM_ONCE void RandomFlip::apply(std::span<float> x, Shape const& in, Random4 const& bits) const {
  if ((bits.word[0] >> 31) == 0) {
    return;
  }
  for (std::ptrdiff_t row = 0; row < in.elements(); row += in[2]) {
    std::reverse(x.data() + row, x.data() + row + in[2]);
  }
}

}  // namespace tandem

#endif
