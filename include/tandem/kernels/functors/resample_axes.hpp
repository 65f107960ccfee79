// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PadAxis, NearestAxis, BilinearAxis: rows or columns of an image made from those of another, each
/// a mean of two at most; plain arithmetic of one place, the same on every backend.
///
/// source<R>(i, k), k < sources(i), are the places of the input that place i of the output is made
/// from, reader<R>(j, k), k < readers(j), the places of the output that are made from place j of
/// the input, both in rising order: a pass forward and its gradient write each element once.

#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/core/shape.hpp>

namespace tandem {

/// A place, and the weight with which it counts, of type R.
template <class R>
struct WeightedPlace {
  int at;
  R weight;
};

/// Places before and behind those of the input.
///
/// @pre padding < in where it reflects, padding <= in where it is circular
struct PadAxis {
  int in = 0;
  int padding = 0;
  PaddingMode mode = PaddingMode::zeros;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int out() const { return in + 2 * padding; }

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int sources(int i) const {
    bool const inside = i >= padding && i < padding + in;
    return inside || mode != PaddingMode::zeros ? 1 : 0;
  }
  template <class R>
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr WeightedPlace<R> source(int i, int /*k*/) const {
    int const j = i - padding;
    if (j >= 0 && j < in) {
      return {j, R{1}};
    }
    switch (mode) {
      case PaddingMode::reflect:
        return {j < 0 ? -j : 2 * (in - 1) - j, R{1}};
      case PaddingMode::replicate:
        return {j < 0 ? 0 : in - 1, R{1}};
      default:
        return {j < 0 ? j + in : j - in, R{1}};
    }
  }

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int readers(int j) const {
    return before(j).count + 1 + behind(j).count;
  }
  template <class R>
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr WeightedPlace<R> reader(int j, int k) const {
    Run const first = before(j);
    if (k <= first.count) {
      return {k < first.count ? first.begin + k : j + padding, R{1}};
    }
    return {behind(j).begin + k - first.count - 1, R{1}};
  }

 private:
  /// Of places in the padding that are made from one of the input.
  struct Run {
    int begin;
    int count;
  };

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr Run before(int j) const {
    switch (mode) {
      case PaddingMode::reflect:
        return {padding - j, j > 0 && j <= padding ? 1 : 0};
      case PaddingMode::replicate:
        return {0, j == 0 ? padding : 0};
      case PaddingMode::circular:
        return {j + padding - in, j + padding >= in ? 1 : 0};
      default:
        return {0, 0};
    }
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr Run behind(int j) const {
    int const from_last = in - 1 - j;
    switch (mode) {
      case PaddingMode::reflect:
        return {padding + in - 1 + from_last, from_last > 0 && from_last <= padding ? 1 : 0};
      case PaddingMode::replicate:
        return {padding + in, from_last == 0 ? padding : 0};
      case PaddingMode::circular:
        return {padding + in + j, j < padding ? 1 : 0};
      default:
        return {0, 0};
    }
  }
};

/// Each place so many times.
struct NearestAxis {
  int in = 0;
  int scale = 1;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int out() const { return in * scale; }

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int sources(int /*i*/) const { return 1; }
  template <class R>
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr WeightedPlace<R> source(int i, int /*k*/) const {
    return {i / scale, R{1}};
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int readers(int /*j*/) const { return scale; }
  template <class R>
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr WeightedPlace<R> reader(int j, int k) const {
    return {j * scale + k, R{1}};
  }
};

/// Places as wide as 1 / scale of the input's, each a mean of the two whose middles it is between,
/// by its distance; before the first middle and behind the last one as those are: PyTorch's with
/// align_corners off.
struct BilinearAxis {
  int in = 0;
  int scale = 1;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int out() const { return in * scale; }

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int sources(int i) const {
    int const at = twice(i);
    return at % (2 * scale) == 0 || at > 2 * scale * (in - 1) ? 1 : 2;
  }
  template <class R>
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr WeightedPlace<R> source(int i, int k) const {
    int const j = twice(i) / (2 * scale) + k;
    return {j, weight<R>(i, j)};
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int readers(int j) const {
    return last_reader(j) - first_reader(j) + 1;
  }
  template <class R>
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr WeightedPlace<R> reader(int j, int k) const {
    int const i = first_reader(j) + k;
    return {i, weight<R>(i, j)};
  }

 private:
  // 2 scale times the place in the input, (i + 1 / 2) / scale - 1 / 2, which is not below 0.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int twice(int i) const {
    int const at = 2 * i + 1 - scale;
    return at > 0 ? at : 0;
  }
  template <class R>
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr R weight(int i, int j) const {
    int const distance = twice(i) - 2 * scale * j;
    if (j == in - 1 && distance > 0) {
      return R{1};
    }
    int const part = distance < 0 ? -distance : distance;
    return static_cast<R>(2 * scale - part) / static_cast<R>(2 * scale);
  }
  // Nearer to j than the next place is.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int first_reader(int j) const {
    return j == 0 ? 0 : scale * (j - 1) + (scale - 1) / 2 + 1;
  }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int last_reader(int j) const {
    return j == in - 1 ? out() - 1 : scale * (j + 1) + scale / 2 - 1;
  }
};

/// An image (channels, rows.in, columns.in) and the one made from it.
template <class Axis>
struct Resampling {
  int channels = 0;
  Axis rows{};
  Axis columns{};
};

/// Of a Pad2d on images @p in.
constexpr Resampling<PadAxis> padded(Shape in, Extent2d padding, PaddingMode mode) {
  return {in[0], {in[1], padding.height, mode}, {in[2], padding.width, mode}};
}

/// Of an Upsample.
template <bool Bilinear>
using UpsampleAxis = std::conditional_t<Bilinear, BilinearAxis, NearestAxis>;
template <bool Bilinear>
constexpr Resampling<UpsampleAxis<Bilinear>> enlarged(Shape in, int scale) {
  return {in[0], {in[1], scale}, {in[2], scale}};
}

/// Which way a pass goes along an axis: how many places are written, and read; and the places that
/// one is made from.
template <class Axis>
struct TowardsOutput {
  Axis axis;
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int written() const { return axis.out(); }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int read() const { return axis.in; }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int terms(int i) const { return axis.sources(i); }
  template <class R>
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr WeightedPlace<R> term(int i, int k) const {
    return axis.template source<R>(i, k);
  }
};
template <class Axis>
struct TowardsInput {
  Axis axis;
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int written() const { return axis.in; }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int read() const { return axis.out(); }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int terms(int j) const { return axis.readers(j); }
  template <class R>
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr WeightedPlace<R> term(int j, int k) const {
    return axis.template reader<R>(j, k);
  }
};

}  // namespace tandem
