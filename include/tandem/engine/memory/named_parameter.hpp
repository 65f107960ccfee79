// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NamedParameter: a parameter with its gradient and optimizer states, by name.

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/graph/graph_view.hpp>

namespace tandem {

/// A parameter, its gradient of the last step, and its optimizer states, by name.
template <class T>
struct NamedParameter {
  std::string name;
  int index = 0;  ///< in the network's order
  int copy = 0;   ///< of the model, where the strategy has two
  Shape shape{};
  Role role = Role::weight;
  bool frozen = false;
  int owner = 0;  ///< index of the one whose values it has: its own unless it is shared
  std::span<T> value{};
  std::span<T> gradient{};             ///< empty where frozen
  std::vector<std::span<T>> states{};  ///< empty where frozen, and for statistics
  std::span<T> average{};              ///< empty where TrainerOptions::average has none
};

/// All parameters of a rank's mirror, in the order of its device's graph.
template <class Program, class Mirror>
auto named_parameters(Mirror& mirror, int states) {
  using T = typename Mirror::T;
  std::vector<NamedParameter<T>> list;
  for (int p = 0; p < Program::graph.parameters; ++p) {
    GraphParameter const& own = Program::graph.parameter[p];
    auto const count = static_cast<std::size_t>(own.parameter.shape.elements());
    std::int64_t const at = Program::layout.offset[p];
    NamedParameter<T> named{
        .name = parameter_name(Program::graph, p),
        .index = own.origin,
        .copy = Program::graph.node[own.node].stage / Program::Program::map.parts(),
        .shape = own.parameter.shape,
        .role = own.parameter.role,
        .frozen = own.frozen,
        .owner = own.owner(),
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
