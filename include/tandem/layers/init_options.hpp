// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Initial values of a layer's weight as options: Linear<768, InitNormal<2, 100>>.
///
/// Without one a layer has PyTorch's. An option of your own is any type that has a
/// `static constexpr Init init`.

#include <concepts>

#include <tandem/graph/layer.hpp>

namespace tandem {

namespace detail {

// By Newton's method from above: each step is nearer until it is no longer smaller.
constexpr double square_root(double value) {
  double root = value > 1.0 ? value : 1.0;
  for (double next = root;; root = next) {
    next = 0.5 * (root + value / root);
    if (!(next < root)) {
      return root;
    }
  }
}

template <long Numerator, long Denominator, long Root>
struct InitNormalIsSound {
  static constexpr bool value = true;
  static_assert(Numerator >= 0 && Denominator >= 1 && Root >= 1,
                "InitNormal<Numerator, Denominator, Root>: give the standard deviation as a "
                "quotient, of which Root divides the square");
};

template <long Numerator, long Denominator>
struct InitUniformIsSound {
  static constexpr bool value = true;
  static_assert(Numerator >= 0 && Denominator >= 1,
                "InitUniform<Numerator, Denominator>: give the bound as a quotient");
};

}  // namespace detail

/// Normal, with mean 0 and standard deviation Numerator / Denominator / sqrt(Root): InitNormal<2,
/// 100> has 0.02, and InitNormal<2, 100, 2 * Layers> what GPT-2 has at the end of residual
/// branches.
template <long Numerator, long Denominator = 1, long Root = 1>
struct InitNormal {
  static constexpr Init init = Init::normal(static_cast<float>(
      static_cast<double>(Numerator) / static_cast<double>(Denominator >= 1 ? Denominator : 1) /
      detail::square_root(static_cast<double>(Root >= 1 ? Root : 1))));
  static_assert(detail::InitNormalIsSound<Numerator, Denominator, Root>::value);
};

/// Uniform in ±Numerator / Denominator.
template <long Numerator, long Denominator = 1>
struct InitUniform {
  static constexpr Init init = Init::uniform(static_cast<float>(
      static_cast<double>(Numerator) / static_cast<double>(Denominator >= 1 ? Denominator : 1)));
  static_assert(detail::InitUniformIsSound<Numerator, Denominator>::value);
};

template <class Option>
concept InitOption = requires {
  { Option::init } -> std::convertible_to<Init>;
};

/// A law of the bias, which is else PyTorch's, or 0 where the weight has a law:
/// InitBias<InitUniform<1, 10>>. Of a recurrent layer's two the inputs' has it; the other begins at
/// 0.
/// The primary template is the error path.
template <class Law>
struct InitBias {
  static constexpr Init init_bias{};
  static_assert(InitOption<Law>, "InitBias<Law>: Law is InitNormal or InitUniform");
};

template <InitOption Law>
struct InitBias<Law> {
  static constexpr Init init_bias = Law::init;
};

template <class Option>
concept BiasInitOption = requires {
  { Option::init_bias } -> std::convertible_to<Init>;
};

namespace detail {

// The init that one of the options gives, else the layer's own.
template <class... Options>
constexpr Init init_of(Init otherwise) {
  Init init = otherwise;
  (
      [&] {
        if constexpr (InitOption<Options>) {
          init = Options::init;
        }
      }(),
      ...);
  return init;
}

// The same of InitBias.
template <class... Options>
constexpr Init bias_init_of(Init otherwise) {
  Init init = otherwise;
  (
      [&] {
        if constexpr (BiasInitOption<Options>) {
          init = Options::init_bias;
        }
      }(),
      ...);
  return init;
}

}  // namespace detail

}  // namespace tandem
