// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Values of parameters and inputs that depend on their name only: formula() of
/// test/golden/models.py, so that networks of a hundred million parameters need no file.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <tandem/core/shape.hpp>

namespace tandem::test {

/// MurmurHash3's finalizer: 32 bits in, 32 well mixed bits out.
constexpr std::uint32_t mixed(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85EBCA6BU;
  x ^= x >> 13;
  x *= 0xC2B2AE35U;
  x ^= x >> 16;
  return x;
}

/// FNV-1a.
constexpr std::uint32_t hash(std::string_view name) {
  std::uint32_t h = 0x811C9DC5U;
  for (char const c : name) {
    h = (h ^ static_cast<unsigned char>(c)) * 0x01000193U;
  }
  return h;
}

/// Writes scale * u + shift, u in [0, 1) by name and place. Every step but the scaling is exact.
template <class T>
void fill_uniform(std::string_view name, std::span<T> values, double scale, double shift) {
  std::uint32_t const offset = hash(name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t const word = mixed(static_cast<std::uint32_t>(i) * 0x9E3779B1U + offset);
    values[i] = static_cast<T>(scale * ((word >> 8) * 0x1p-24 + shift));
  }
}

/// The values of parameter or statistic @p name, or of the input, whose name is "x".
template <class T>
void fill_by_formula(std::string_view name, Shape shape, std::span<T> values) {
  if (name == "x") {
    fill_uniform(name, values, 4.0, -0.5);
  } else if (name.ends_with("running_var") || (name.ends_with("weight") && shape.rank == 1)) {
    fill_uniform(name, values, 1.0, 0.5);
  } else if (name.ends_with("weight")) {
    auto const fan_in = static_cast<double>(shape.elements() / shape[0]);
    fill_uniform(name, values, 2.0 * std::sqrt(6.0 / fan_in), -0.5);
  } else {
    fill_uniform(name, values, 1.0, -0.5);
  }
}

}  // namespace tandem::test
