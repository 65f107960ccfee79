// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Initial values of parameters, and views of them by name, in the order the user wrote them.

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/philox.hpp>
#include <tandem/graph/graph.hpp>

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

/// A parameter, its gradient of the last step, and its optimizer states, by name.
template <class T>
struct NamedParameter {
  std::string name;
  Shape shape{};
  Role role = Role::weight;
  bool frozen = false;
  std::span<T> value{};
  std::span<T> gradient{};             ///< empty where frozen
  std::vector<std::span<T>> states{};  ///< empty where frozen, and for statistics
};

/// All parameters of a rank's mirror, in the order of the network.
template <class Program, class Mirror>
auto named_parameters(Mirror& mirror, int states) {
  using T = typename Mirror::T;
  std::vector<NamedParameter<T>> list;
  for (int p = 0; p < Program::graph.parameters; ++p) {
    GraphParameter const& own = Program::graph.parameter[p];
    auto const count = static_cast<std::size_t>(own.parameter.shape.elements());
    std::int64_t const at = Program::layout.offset[p];
    NamedParameter<T> named{.name = parameter_name(Program::graph, p),
                            .shape = own.parameter.shape,
                            .role = own.parameter.role,
                            .frozen = own.frozen,
                            .value = {mirror.parameters() + at, count}};
    if (!own.frozen) {
      named.gradient = {mirror.gradients() + at, count};
      for (int s = 0; named.role == Role::weight && s < states; ++s) {
        named.states.emplace_back(mirror.state(s) + at, count);
      }
    }
    list.push_back(std::move(named));
  }
  return list;
}

}  // namespace tandem
