// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Mixup and CutMix: what makes one sample of two, whose labels become shares.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/dataset.hpp>

namespace tandem {

/// A value with alpha, the share's law being Beta(alpha, alpha); probability, that a sample is
/// mixed at all; check(Shape), which throws ContractError where it cannot mix; and mix(x, other,
/// shape, share, bits), which puts other into x and returns the share of x that is left.
template <class M>
concept Mixing = requires(M const& mixing, std::span<float> x, std::span<float const> other,
                          Shape const& shape, double share, Random4 const& bits) {
  { mixing.alpha } -> std::convertible_to<float>;
  { mixing.probability } -> std::convertible_to<float>;
  mixing.check(shape);
  { mixing.mix(x, other, shape, share, bits) } -> std::same_as<double>;
};

namespace detail {

TANDEM_ONCE void check_mixing(char const* sentence, float alpha, float probability);

/// In (0, 1).
inline double open_uniform(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }

/// The logarithm of a number whose law is Gamma(alpha): that of Gamma(alpha + 1) times
/// U^(1 / alpha), which is 0 in double for a small alpha.
/// @param draw  draw(attempt): 128 bits, others each time
/// Source: Marsaglia, Tsang, ACM TOMS 26 (2000), page 363
template <class Draw>
double log_gamma_variate(double alpha, Draw const& draw) {
  double const d = alpha + 2.0 / 3.0;
  for (std::uint32_t attempt = 0;; ++attempt) {
    Random4 const bits = draw(attempt);
    double const normal = std::sqrt(-2.0 * std::log(open_uniform(bits.word[0]))) *
                          std::cos(2.0 * std::numbers::pi * open_uniform(bits.word[1]));
    double const root = 1.0 + normal / std::sqrt(9.0 * d);
    double const v = root * root * root;
    if (v > 0.0 && std::log(open_uniform(bits.word[2])) <
                       0.5 * normal * normal + d - d * v + d * std::log(v)) {
      return std::log(d * v) + std::log(open_uniform(bits.word[3])) / alpha;
    }
  }
}

/// A number whose law is Beta(alpha, alpha), of draws which + 2^16 k, k > 0, of @p randomness.
TANDEM_ONCE double beta_variate(double alpha, Randomness const& randomness, std::uint32_t which);

}  // namespace detail

/// x = share x + (1 - share) other.
/// Source: Zhang, Cisse, Dauphin, Lopez-Paz, arXiv:1710.09412
struct Mixup {
  float alpha = 0.2F;
  float probability = 1.0F;

  void check(Shape const& shape) const {
    expects(shape.valid(), "Mixup: samples must have a shape");
    detail::check_mixing("Mixup: give an alpha from 0.01 to 100 and a probability from 0 to 1",
                         alpha, probability);
  }
  TANDEM_ONCE static double mix(std::span<float> x, std::span<float const> other,
                                Shape const& /*shape*/, double share, Random4 const& /*bits*/);
};

/// A rectangle of x becomes that of other: (1 - share) of the area, but for what of it lies outside
/// of the image; its centre is anywhere. The share is then that of the pixels that are left.
/// Source: Yun, Han, Oh, Chun, Choe, Yoo, arXiv:1905.04899
struct CutMix {
  float alpha = 1.0F;
  float probability = 1.0F;

  void check(Shape const& shape) const {
    expects(shape.rank == 3 && shape.valid(), "CutMix: the samples must be images (C, H, W)");
    detail::check_mixing("CutMix: give an alpha from 0.01 to 100 and a probability from 0 to 1",
                         alpha, probability);
  }
  TANDEM_ONCE static double mix(std::span<float> x, std::span<float const> other,
                                Shape const& shape, double share, Random4 const& bits);
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void check_mixing(char const* sentence, float alpha, float probability) {
  expects(is_finite(double{alpha}) && alpha >= 0.01F && alpha <= 100.0F && probability >= 0.0F &&
              probability <= 1.0F,
          sentence);
}

TANDEM_ONCE double beta_variate(double alpha, Randomness const& randomness, std::uint32_t which) {
  auto const gamma = [&](std::uint32_t odd) {
    return log_gamma_variate(alpha, [&](std::uint32_t attempt) {
      return randomness.draw(which + ((2 * attempt + odd + 1) << 16));
    });
  };
  double const one = gamma(0);
  return 1.0 / (1.0 + std::exp(gamma(1) - one));
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE double Mixup::mix(std::span<float> x, std::span<float const> other,
                              Shape const& /*shape*/, double share, Random4 const& /*bits*/) {
  auto const own = static_cast<float>(share);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = own * x[i] + (1.0F - own) * other[i];
  }
  return static_cast<double>(own);
}

TANDEM_ONCE double CutMix::mix(std::span<float> x, std::span<float const> other, Shape const& shape,
                               double share, Random4 const& bits) {
  int const height = shape[1];
  int const width = shape[2];
  double const side = std::sqrt(1.0 - share);
  auto const range = [&](int extent, std::uint32_t word) {
    int const half = static_cast<int>(extent * side) / 2;
    int const centre = static_cast<int>(below(word, static_cast<std::uint32_t>(extent)));
    return std::pair{std::max(centre - half, 0), std::min(centre + half, extent)};
  };
  auto const [top, bottom] = range(height, bits.word[0]);
  auto const [left, right] = range(width, bits.word[1]);
  for (int c = 0; c < shape[0]; ++c) {
    for (int r = top; r < bottom; ++r) {
      std::ptrdiff_t const row = (std::ptrdiff_t{c} * height + r) * width;
      std::copy(other.begin() + row + left, other.begin() + row + right, x.begin() + row + left);
    }
  }
  double const cut = static_cast<double>(bottom - top) * (right - left);
  return 1.0 - cut / (static_cast<double>(height) * width);
}

}  // namespace tandem

#endif
