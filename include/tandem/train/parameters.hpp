// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Initial values of parameters, and those of all devices of a replica together.

#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/graph/layer.hpp>

namespace tandem {

namespace detail {

/// Four numbers of mean 0 and deviation 1, by Box and Muller: two of words 0 and 1, two of words 2
/// and 3. None is larger than 6.8.
///
/// Source: Box, Muller, "A note on the generation of random normal deviates", Ann. Math. Statist.
///         29(2), 1958
TANDEM_ONCE void standard_normal(Random4 const& random, double (&z)[4]);

}  // namespace detail

/// Writes the initial values of parameter @p p; they depend on (seed, p, element) only, and are
/// floats whatever T is.
///
/// Uniform ones have the same bits everywhere; normal ones are made in double and rounded, so that
/// another machine's log, sin and cos may change the last bit of a few.
template <class T>
void initialize(Parameter const& parameter, int p, std::uint64_t seed, std::span<T> values) {
  Init const& init = parameter.init;
  if (init.law == Init::Law::constant) {
    for (T& value : values) {
      value = static_cast<T>(init.value);
    }
    return;
  }
  float const bound = init.law == Init::Law::uniform
                          ? init.value
                          : 1.0F / std::sqrt(static_cast<float>(init.fan_in));
  for (std::size_t i = 0; i < values.size(); i += 4) {
    Random4 const random =
        philox(seed, RandomUse::initial_weights, i / 4, static_cast<std::uint64_t>(p));
    float drawn[4];
    if (init.law == Init::Law::normal) {
      double z[4];
      detail::standard_normal(random, z);
      for (std::size_t j = 0; j < 4; ++j) {
        drawn[j] = static_cast<float>(double{init.value} * z[j]);
      }
    } else {
      for (std::size_t j = 0; j < 4; ++j) {
        drawn[j] = (2.0F * uniform(random.word[j]) - 1.0F) * bound + init.middle;
      }
    }
    for (std::size_t j = 0; j < 4 && i + j < values.size(); ++j) {
      values[i + j] = static_cast<T>(drawn[j]);
    }
  }
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void standard_normal(Random4 const& random, double (&z)[4]) {
  for (int pair = 0; pair < 4; pair += 2) {
    double const above_zero = (static_cast<double>(random.word[pair]) + 0.5) * 0x1p-32;
    double const turn = static_cast<double>(random.word[pair + 1]) * 0x1p-32;
    double const radius = std::sqrt(-2.0 * std::log(above_zero));
    z[pair] = radius * std::cos(2.0 * std::numbers::pi * turn);
    z[pair + 1] = radius * std::sin(2.0 * std::numbers::pi * turn);
  }
}

}  // namespace tandem::detail

#endif
