// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Initial values of parameters, and those of all devices of a replica together.

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/philox.hpp>
#include <tandem/graph/layer.hpp>

namespace tandem {

/// Writes the initial values of parameter @p p; they depend on (seed, p, element) only.
template <class T>
void initialize(Parameter const& parameter, int p, std::uint64_t seed, std::span<T> values) {
  if (parameter.init.law == Init::Law::constant) {
    for (T& value : values) {
      value = static_cast<T>(parameter.init.value);
    }
    return;
  }
  float const bound = 1.0F / std::sqrt(static_cast<float>(parameter.init.fan_in));
  for (std::size_t i = 0; i < values.size(); i += 4) {
    Random4 const random =
        philox(seed, RandomUse::initial_weights, i / 4, static_cast<std::uint64_t>(p));
    for (std::size_t j = 0; j < 4 && i + j < values.size(); ++j) {
      values[i + j] = static_cast<T>((2.0F * uniform(random.word[j]) - 1.0F) * bound);
    }
  }
}

/// The network's @p all parameters in its order, from those of each device of a replica.
/// @param of    of(device): the device's parameters
/// @param copy  of the model, where there are two
template <class F>
auto gather(int all, int devices, F const& of, int copy = 0) {
  std::vector<typename std::invoke_result_t<F const&, int>::value_type> list(
      static_cast<std::size_t>(all));
  for (int device = devices - 1; device >= 0; --device) {
    for (auto& own : of(device)) {
      if (own.copy == copy) {
        list[static_cast<std::size_t>(own.index)] = std::move(own);
      }
    }
  }
  return list;
}

}  // namespace tandem
