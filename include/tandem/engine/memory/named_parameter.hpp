// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NamedParameter: a parameter with its gradient and optimizer states, by name.

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/strategy/device_program.hpp>

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
  std::span<T> gradient{};             ///< empty where frozen, and where it is GradientRows
  std::vector<std::span<T>> states{};  ///< empty where frozen, and for statistics
  std::span<T> average{};              ///< empty where TrainerOptions::average has none
};

namespace detail {

/// Of a graph laid out by @p offset, each of @p parts stages a model, from where its arrays begin.
template <class T>
TANDEM_COLD std::vector<NamedParameter<T>> named_parameters(GraphView graph,
                                                            std::int64_t const* offset, int parts,
                                                            T* values, T* gradients,
                                                            std::vector<T*> const& states) {
  std::vector<NamedParameter<T>> list;
  for (int p = 0; p < graph.parameters; ++p) {
    GraphParameter const& own = graph.parameter[p];
    auto const count = static_cast<std::size_t>(own.parameter.shape.elements());
    NamedParameter<T> named{.name = parameter_name(graph, p),
                            .index = own.origin,
                            .copy = graph.node[own.node].stage / parts,
                            .shape = own.parameter.shape,
                            .role = own.parameter.role,
                            .frozen = own.frozen,
                            .owner = own.owner(),
                            .value = {values + offset[p], count}};
    if (!own.frozen) {
      if (!own.parameter.touched.sparse()) {
        named.gradient = {gradients + offset[p], count};
      }
      for (std::size_t s = 0; named.role == Role::weight && s < states.size(); ++s) {
        named.states.emplace_back(states[s] + offset[p], count);
      }
    }
    list.push_back(std::move(named));
  }
  return list;
}

}  // namespace detail

/// All parameters of a rank's mirror, in the order of its device's graph.
template <class Program, class Mirror>
auto named_parameters(Mirror& mirror, int states) {
  std::vector<typename Mirror::T*> of_states;
  for (int s = 0; s < states; ++s) {
    of_states.push_back(mirror.state(s));
  }
  return detail::named_parameters<typename Mirror::T>(
      WholeParameters<Program>::graph, WholeParameters<Program>::layout.offset,
      Program::Program::map.parts(), mirror.parameters(), mirror.gradients(), of_states);
}

}  // namespace tandem
