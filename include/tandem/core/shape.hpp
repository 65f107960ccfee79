// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Shape: the extents of one sample, known to the compiler; and Image, Vector, the network inputs.
///
/// The batch is never part of a Shape: it is a run-time number. A Shape of rank 0 is "no shape".

#include <cstdint>
#include <string>

namespace tandem {

/// Extents of one sample, outermost first: (C, H, W) for an image, (N) for a vector.
struct Shape {
  int rank = 0;
  int extent[4] = {};

  [[nodiscard]] constexpr int operator[](int axis) const { return extent[axis]; }

  /// 0 for a shape of rank 0.
  [[nodiscard]] constexpr std::int64_t elements() const {
    std::int64_t product = rank > 0 ? 1 : 0;
    for (int axis = 0; axis < rank && axis < 4; ++axis) {
      product *= extent[axis];
    }
    return product;
  }

  [[nodiscard]] constexpr bool valid() const { return elements() > 0; }

  friend constexpr bool operator==(Shape const&, Shape const&) = default;
};

/// The shape of an image: @p channels maps of @p height rows and @p width columns.
constexpr Shape image_shape(int channels, int height, int width) {
  return {3, {channels, height, width, 0}};
}

/// The shape of a vector of @p elements.
constexpr Shape vector_shape(int elements) { return {1, {elements, 0, 0, 0}}; }

/// A network's input: an image of C channels, H rows, W columns.
template <int C, int H, int W>
struct Image {
  static constexpr Shape shape = image_shape(C, H, W);
};

/// A network's input: a vector of N numbers.
template <int N>
struct Vector {
  static constexpr Shape shape = vector_shape(N);
};

/// "3x32x32", "10", or "none" for a shape of rank 0.
inline std::string to_string(Shape const& shape) {
  std::string text;
  for (int axis = 0; axis < shape.rank; ++axis) {
    text += axis > 0 ? "x" : "";
    text += std::to_string(shape[axis]);
  }
  return text.empty() ? "none" : text;
}

}  // namespace tandem
