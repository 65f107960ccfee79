// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PadAxis, NearestAxis, BilinearAxis: rows or columns of an image made from those of another, each
/// a mean of two at most; plain arithmetic of one place, the same on every backend.
///
/// each_source(i, f) calls f(j, weight) for every place j of the input that place i of the output
/// is made from, each_reader(j, f) calls f(i, weight) for every i that is made from j, both in
/// rising order: a pass forward and its gradient write each element once. R: of the weights.

#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/core/shape.hpp>

namespace tandem {

/// Places before and behind those of the input.
///
/// @pre padding < in where it reflects, padding <= in where it is circular
struct PadAxis {
  int in = 0;
  int padding = 0;
  PaddingMode mode = PaddingMode::zeros;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int out() const { return in + 2 * padding; }

  template <class R, class Function>
  TANDEM_HOST_DEVICE constexpr void each_source(int i, Function const& f) const {
    int j = i - padding;
    if (j >= 0 && j < in) {
      return f(j, R{1});
    }
    bool const before = j < 0;
    switch (mode) {
      case PaddingMode::zeros:
        return;
      case PaddingMode::reflect:
        j = before ? -j : 2 * (in - 1) - j;
        break;
      case PaddingMode::replicate:
        j = before ? 0 : in - 1;
        break;
      case PaddingMode::circular:
        j += before ? in : -in;
        break;
    }
    f(j, R{1});
  }

  template <class R, class Function>
  TANDEM_HOST_DEVICE constexpr void each_reader(int j, Function const& f) const {
    // Those in the padding: none, or a run on each side.
    int const none = -1;
    int before = none;
    int behind = none;
    int run = 1;
    switch (mode) {
      case PaddingMode::zeros:
        break;
      case PaddingMode::reflect:
        before = j > 0 ? padding - j : none;
        behind = j < in - 1 ? padding + 2 * (in - 1) - j : none;
        break;
      case PaddingMode::replicate:
        before = j == 0 ? 0 : none;
        behind = j == in - 1 ? padding + in : none;
        run = padding;
        break;
      case PaddingMode::circular:
        before = j + padding - in;
        behind = j + padding + in;
        break;
    }
    for (int i = before; before >= 0 && i < before + run; ++i) {
      f(i, R{1});
    }
    f(j + padding, R{1});
    for (int i = behind; behind >= 0 && i < behind + run && i < out(); ++i) {
      f(i, R{1});
    }
  }
};

/// Each place so many times.
struct NearestAxis {
  int in = 0;
  int scale = 1;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int out() const { return in * scale; }

  template <class R, class Function>
  TANDEM_HOST_DEVICE constexpr void each_source(int i, Function const& f) const {
    f(i / scale, R{1});
  }
  template <class R, class Function>
  TANDEM_HOST_DEVICE constexpr void each_reader(int j, Function const& f) const {
    for (int i = j * scale; i < (j + 1) * scale; ++i) {
      f(i, R{1});
    }
  }
};

/// Places as wide as 1 / scale of the input's, their middles on the line between two of its
/// middles, before the first and behind the last one as those are: PyTorch's with align_corners
/// off.
struct BilinearAxis {
  int in = 0;
  int scale = 1;

  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int out() const { return in * scale; }

  template <class R, class Function>
  TANDEM_HOST_DEVICE constexpr void each_source(int i, Function const& f) const {
    At const at = place(i);
    R const upper = static_cast<R>(at.part) / static_cast<R>(2 * scale);
    if (at.part == 0 || at.first == in - 1) {
      return f(at.first, R{1});
    }
    f(at.first, R{1} - upper);
    f(at.first + 1, upper);
  }
  template <class R, class Function>
  TANDEM_HOST_DEVICE constexpr void each_reader(int j, Function const& f) const {
    int const begin = (j - 1) * scale > 0 ? (j - 1) * scale : 0;
    int const end = (j + 2) * scale < out() ? (j + 2) * scale : out();
    for (int i = begin; i < end; ++i) {
      each_source<R>(i, [&](int source, R weight) {
        if (source == j) {
          f(i, weight);
        }
      });
    }
  }

 private:
  struct At {
    int first;  // the place of the input at or before this one
    int part;   // of 2 scale, towards the next
  };

  // (i + 1 / 2) / scale - 1 / 2, not below 0.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr At place(int i) const {
    int const twice = 2 * i + 1 - scale;
    return twice < 0 ? At{0, 0} : At{twice / (2 * scale), twice % (2 * scale)};
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

/// Which way a pass goes along an axis: what is written, what is read, how many of each.
template <class Axis>
struct TowardsOutput {
  Axis axis;
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int written() const { return axis.out(); }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int read() const { return axis.in; }
  template <class R, class Function>
  TANDEM_HOST_DEVICE constexpr void each(int place, Function const& f) const {
    axis.template each_source<R>(place, f);
  }
};
template <class Axis>
struct TowardsInput {
  Axis axis;
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int written() const { return axis.in; }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr int read() const { return axis.out(); }
  template <class R, class Function>
  TANDEM_HOST_DEVICE constexpr void each(int place, Function const& f) const {
    axis.template each_reader<R>(place, f);
  }
};

}  // namespace tandem
