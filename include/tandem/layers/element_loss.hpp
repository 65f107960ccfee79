// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Losses that are a mean over the elements of the output, each given by two functions of one
/// output and its target.
///
/// A program's own is such a type, too, on every backend:
///
///   struct LogCosh : MeanOverElements {
///     static constexpr std::string_view name = "LogCosh";
///     template <class R>
///     TANDEM_HOST_DEVICE static R loss(R y, R t) { return std::log(std::cosh(y - t)); }
///     template <class R>
///     TANDEM_HOST_DEVICE static R gradient(R y, R t) { return std::tanh(y - t); }
///   };

#include <cmath>
#include <concepts>
#include <cstddef>
#include <ratio>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/row.hpp>
#include <tandem/core/shape.hpp>

namespace tandem {

/// What these losses share. Shapes: output (B, …); as many float targets a sample as the output has
/// elements, as users order them.
struct MeanOverElements {
  using Target = float;
  static constexpr int targets(Shape out) { return static_cast<int>(out.elements()); }
};

/// `loss(y, t)`, which is summed in double, and `gradient(y, t)`, its derivative by y, in the
/// precision of the kernel: static, and TANDEM_HOST_DEVICE for Cuda.
template <class L>
concept ElementLoss = std::derived_from<L, MeanOverElements> && requires(float y, double z) {
  { L::loss(z, z) } -> std::same_as<double>;
  { L::gradient(y, y) } -> std::same_as<float>;
  { L::gradient(z, z) } -> std::same_as<double>;
};

/// (y - t)²
struct MeanSquaredError : MeanOverElements {
  static constexpr std::string_view name = "MeanSquaredError";
  template <class R>
  TANDEM_HOST_DEVICE static constexpr R loss(R y, R t) {
    return (y - t) * (y - t);
  }
  template <class R>
  TANDEM_HOST_DEVICE static constexpr R gradient(R y, R t) {
    return R{2} * (y - t);
  }
};

/// |y - t|, whose derivative at 0 is taken to be 0.
struct MeanAbsoluteError : MeanOverElements {
  static constexpr std::string_view name = "MeanAbsoluteError";
  template <class R>
  TANDEM_HOST_DEVICE static R loss(R y, R t) {
    return std::fabs(y - t);
  }
  template <class R>
  TANDEM_HOST_DEVICE static constexpr R gradient(R y, R t) {
    R const off = y - t;
    return off > R{0} ? R{1} : off < R{0} ? R{-1} : off * R{0};  // NaN stays
  }
};

/// (y - t)² / 2 where |y - t| <= delta, and delta (|y - t| - delta / 2) beyond.
/// @tparam Delta  a std::ratio above 0: Huber<std::ratio<1, 2>>
template <class Delta = std::ratio<1>>
struct Huber : MeanOverElements {
  static_assert(Delta::num > 0, "Huber<Delta>: give a std::ratio above 0");
  static constexpr std::string_view name = "Huber";
  template <class R>
  TANDEM_HOST_DEVICE static R loss(R y, R t) {
    constexpr R bound = static_cast<R>(Delta::num) / static_cast<R>(Delta::den);
    R const off = std::fabs(y - t);
    return off <= bound ? R{0.5} * off * off : bound * (off - R{0.5} * bound);
  }
  template <class R>
  TANDEM_HOST_DEVICE static constexpr R gradient(R y, R t) {
    constexpr R bound = static_cast<R>(Delta::num) / static_cast<R>(Delta::den);
    R const off = y - t;
    return off > bound ? bound : off < -bound ? -bound : off;
  }
};

/// -t log s - (1 - t) log(1 - s), s = 1 / (1 + exp(-y)): of outputs before the sigmoid, which it is
/// exact for however large they are, and targets from 0 to 1.
struct BinaryCrossEntropy : MeanOverElements {
  static constexpr std::string_view name = "BinaryCrossEntropy";
  template <class R>
  TANDEM_HOST_DEVICE static R loss(R y, R t) {
    return (y > R{0} ? y * (R{1} - t) : -y * t) + std::log1p(std::exp(-std::fabs(y)));
  }
  template <class R>
  TANDEM_HOST_DEVICE static R gradient(R y, R t) {
    R const small = std::exp(-std::fabs(y));
    return (y >= R{0} ? R{1} : small) / (R{1} + small) - t;
  }
};

/// The metric of BinaryCrossEntropy: share of the outputs that are above 0 where the target is
/// above 1/2, and are not where it is not.
struct BinaryAccuracy {
  static constexpr std::string_view name = "accuracy";
  template <class R>
  TANDEM_HOST_DEVICE static double value(Row<R const> y, Row<float const> t) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      right += (y[i] > R{0}) == (t[i] > 0.5F) ? 1 : 0;
    }
    return static_cast<double>(right) / static_cast<double>(y.size());
  }
};

}  // namespace tandem
