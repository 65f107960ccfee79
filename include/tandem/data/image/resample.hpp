// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Bilinear resizing with antialiasing: resize() of bytes, bit for bit as Pillow before 13, which
/// resizes some shapes along columns first (differences of 1 at most), and of channels of floats.
///
/// A pixel is the mean of those below a triangle around its centre, as wide as the image shrinks.
/// Source: Pillow, src/libImaging/Resample.c, of which torchvision's Resize is a caller.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/data/image/pixels.hpp>

namespace tandem {

/// A rectangle of an image.
struct PixelBox {
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;

  friend constexpr bool operator==(PixelBox const&, PixelBox const&) = default;
};

namespace detail {

/// Along one axis: place i is the sum of weight[i * most + k] times what stands at first[i] + k.
struct AxisWeights {
  std::size_t most = 0;
  std::vector<std::size_t> first;
  std::vector<std::size_t> count;
  std::vector<double> weight;
};

/// Of places [begin, begin + size) of an axis of @p from pixels that becomes one of @p to.
TANDEM_ONCE AxisWeights axis_weights(int from, int to, int begin, int size);

/// Pillow's arithmetic on bytes: weights of 22 bits, rounded sums.
struct ByteArithmetic {
  using Weight = std::int32_t;
  using Value = std::uint8_t;
  static Weight weight(double w) { return static_cast<Weight>(0.5 + w * (1 << 22)); }
  static Weight zero() { return 1 << 21; }
  static Value value(Weight sum) { return static_cast<Value>(std::clamp(sum >> 22, 0, 255)); }
};

struct FloatArithmetic {
  using Weight = float;
  using Value = float;
  static Weight weight(double w) { return static_cast<float>(w); }
  static Weight zero() { return 0; }
  static Value value(Weight sum) { return sum; }
};

/// out(r, i, c) = sum over k of w(i, k) in(r, first(i) + k, c), r in [0, @p rows): strides say
/// whether that is along columns or rows. @p inner elements stand side by side.
template <class A>
void weigh(AxisWeights const& axis, typename A::Value const* in, std::size_t in_row,
           std::size_t in_place, typename A::Value* out, std::size_t out_row, std::size_t out_place,
           std::size_t rows, std::size_t inner) {
  std::vector<typename A::Weight> weights(axis.weight.size());
  std::transform(axis.weight.begin(), axis.weight.end(), weights.begin(), A::weight);
  std::vector<typename A::Weight> sums(inner);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < axis.first.size(); ++i) {
      std::fill(sums.begin(), sums.end(), A::zero());
      for (std::size_t k = 0; k < axis.count[i]; ++k) {
        auto const weight = weights[i * axis.most + k];
        auto const* const from = in + r * in_row + (axis.first[i] + k) * in_place;
        for (std::size_t c = 0; c < inner; ++c) {
          sums[c] += weight * static_cast<typename A::Weight>(from[c]);
        }
      }
      auto* const to = out + r * out_row + i * out_place;
      std::transform(sums.begin(), sums.end(), to, A::value);
    }
  }
}

/// The part @p window of what @p box of an image (rows of @p pitch elements, pixels of @p inner)
/// is as an image of @p height rows and @p width columns. First along rows, then along columns; an
/// axis that does not change is copied.
template <class A>
void resample(typename A::Value const* in, std::size_t pitch, std::size_t inner,
              PixelBox const& box, int height, int width, PixelBox const& window,
              typename A::Value* out) {
  auto const size = [](int n) { return static_cast<std::size_t>(n); };
  AxisWeights const across = axis_weights(box.width, width, window.left, window.width);
  AxisWeights const down = axis_weights(box.height, height, window.top, window.height);
  std::size_t const first = down.first.front();
  std::size_t const rows = down.first.back() + down.count.back() - first;
  std::size_t const row = size(window.width) * inner;
  typename A::Value const* const from =
      in + (size(box.top) + first) * pitch + size(box.left) * inner;
  std::vector<typename A::Value> middle(rows * row);
  if (box.width == width) {
    for (std::size_t r = 0; r < rows; ++r) {
      auto const* const begin = from + r * pitch + size(window.left) * inner;
      std::copy(begin, begin + row, middle.data() + r * row);
    }
  } else {
    weigh<A>(across, from, pitch, inner, middle.data(), row, inner, rows, inner);
  }
  if (box.height == height) {
    std::copy_n(middle.begin(), size(window.height) * row, out);  // from row window.top on
  } else {
    AxisWeights shifted = down;
    for (std::size_t& place : shifted.first) {
      place -= first;
    }
    weigh<A>(shifted, middle.data(), 0, row, out, 0, row, 1, row);
  }
}

}  // namespace detail

/// The part @p window of what @p box of @p image is as one of @p height rows and @p width columns.
///
/// Cost: a pixel of the window takes about 2 * (1 + shrinking) products along each axis.
TANDEM_ONCE [[nodiscard]] Pixels resize(Pixels const& image, PixelBox const& box, int height,
                                        int width, PixelBox const& window);

/// The whole image.
TANDEM_ONCE [[nodiscard]] Pixels resize(Pixels const& image, int height, int width);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE AxisWeights axis_weights(int from, int to, int begin, int size) {
  double const scale = double{1} * from / to;
  double const width = std::max(scale, 1.0);
  AxisWeights axis;
  axis.most = static_cast<std::size_t>(std::ceil(width)) * 2 + 1;
  axis.weight.resize(axis.most * static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) {
    double const centre = (begin + i + 0.5) * scale;
    int const first = std::max(static_cast<int>(centre - width + 0.5), 0);
    int const end = std::min(static_cast<int>(centre + width + 0.5), from);
    double* const weight = axis.weight.data() + static_cast<std::size_t>(i) * axis.most;
    double sum = 0;
    for (int k = 0; k < end - first; ++k) {
      double const distance = std::abs((k + first - centre + 0.5) * (1.0 / width));
      weight[k] = distance < 1.0 ? 1.0 - distance : 0.0;
      sum += weight[k];
    }
    for (int k = 0; k < end - first && sum != 0; ++k) {
      weight[k] /= sum;
    }
    axis.first.push_back(static_cast<std::size_t>(first));
    axis.count.push_back(static_cast<std::size_t>(end - first));
  }
  return axis;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE Pixels resize(Pixels const& image, PixelBox const& box, int height, int width,
                          PixelBox const& window) {
  auto const channels = static_cast<std::size_t>(image.channels);
  Pixels out{image.channels, window.height, window.width, {}};
  out.bytes.resize(static_cast<std::size_t>(window.height) *
                   static_cast<std::size_t>(window.width) * channels);
  detail::resample<detail::ByteArithmetic>(image.bytes.data(),
                                           static_cast<std::size_t>(image.width) * channels,
                                           channels, box, height, width, window, out.bytes.data());
  return out;
}

TANDEM_ONCE Pixels resize(Pixels const& image, int height, int width) {
  return resize(image, {0, 0, image.height, image.width}, height, width, {0, 0, height, width});
}

}  // namespace tandem

#endif
