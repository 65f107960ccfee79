// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Shape: the extents of one sample, known to the compiler; and Image, Vector, Tokens, the network
/// inputs.
///
/// The batch is never part of a Shape: it is a run-time number. Of a sequence neither is its time:
/// axis 0 of a timed shape is the longest that a step may have, and memory is planned for it. A
/// Shape of rank 0 is "no shape".

#include <cstdint>
#include <string>

namespace tandem {

/// Extents of one sample, outermost first: (C, H, W) for an image, (N) for a vector, (T, C) for a
/// sequence of T rows, (T) for one of T indices.
struct Shape {
  int rank = 0;
  int extent[4] = {};
  bool timed = false;     ///< axis 0 is time: a step may have fewer rows
  std::int8_t clock = 0;  ///< whose time that is: the input's, where a network has several

  [[nodiscard]] constexpr int operator[](int axis) const { return extent[axis]; }

  /// 0 for a shape of rank 0.
  [[nodiscard]] constexpr std::int64_t elements() const {
    std::int64_t product = rank > 0 ? 1 : 0;
    for (int axis = 0; axis < rank && axis < 4; ++axis) {
      product *= extent[axis];
    }
    return product;
  }

  /// Of a sample of @p time rows; the same as elements() where the shape is not timed.
  [[nodiscard]] constexpr std::int64_t elements(int time) const {
    return timed ? row_elements() * time : elements();
  }

  /// Rows of a batch that an op sees which treats each alike: the samples, or their rows of time.
  [[nodiscard]] constexpr std::int64_t rows(int batch, int time) const {
    return timed ? std::int64_t{batch} * time : batch;
  }

  /// Elements of one such row.
  [[nodiscard]] constexpr std::int64_t row_elements() const {
    return timed && rank > 0 ? elements() / extent[0] : elements();
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

/// The shape of a sequence: at most @p time rows of @p channels.
constexpr Shape timed_shape(int time, int channels) { return {2, {time, channels, 0, 0}, true}; }

/// The shape of a sequence of at most @p time indices.
constexpr Shape tokens_shape(int time) { return {1, {time, 0, 0, 0}, true}; }

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

/// A network's input: a sequence of at most T indices, each a std::int32_t in [0, V).
template <int T, int V>
struct Tokens {
  static constexpr Shape shape = tokens_shape(T);
  static constexpr int limit = V;
};

/// Two inputs of a network, tokens both, each with a time and lengths of its own. The parts begin
/// with the first, and Input<1> stands for the second. The primary template is of no network.
template <class A, class B>
struct Inputs {
  using second = B;
};

template <class A, class B>
  requires(A::limit > 0 && B::limit > 0)
struct Inputs<A, B> {
  static constexpr Shape shape = A::shape;
  static constexpr int limit = A::limit;
  using second = B;
};

/// How many rows the samples of a step have: of each clock.
struct Times {
  static constexpr int most = 2;
  int of[most] = {};

  [[nodiscard]] constexpr int operator[](Shape const& shape) const { return of[shape.clock]; }
  friend constexpr bool operator==(Times const&, Times const&) = default;
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
