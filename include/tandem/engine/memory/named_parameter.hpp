// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NamedParameter: a parameter with its gradient and optimizer states, by name.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem {

/// A parameter, its gradient of the last step, and its optimizer states, by name: to be read.
/// Trainer::set_parameter() writes one, since a backend may keep a copy in a layout of its own.
template <class T>
struct NamedParameter {
  std::string name;
  int index = 0;  ///< in the network's order
  int copy = 0;   ///< of the model, where the strategy has two
  Shape shape{};
  Role role = Role::weight;
  bool frozen = false;
  int owner = 0;  ///< index of the one whose values it has: its own unless it is shared
  std::span<T const> value{};
  std::span<T const> gradient{};             ///< empty where frozen, and where it is GradientRows
  std::vector<std::span<T const>> states{};  ///< empty where frozen, and for statistics
  std::span<T const> average{};              ///< empty where TrainerOptions::average has none
};

namespace detail {

/// A part of a NamedParameter of a rank, whose memory is the library's and not const. Whoever
/// writes it calls upload() afterwards.
template <class T>
std::span<T> writable(std::span<T const> numbers) {
  return {const_cast<T*>(numbers.data()), numbers.size()};
}

/// The index of the parameter of @p network that is called @p name and is to have @p count numbers.
/// @throws ContractError  there is none, or it has another size
TANDEM_ONCE TANDEM_COLD int index_to_set(GraphView network, std::string_view name,
                                         std::size_t count);

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
template <class Mirror>
auto named_parameters(DeviceTables const& device, Mirror& mirror, int states) {
  std::vector<typename Mirror::T*> of_states;
  for (int s = 0; s < states; ++s) {
    of_states.push_back(mirror.state(s));
  }
  return detail::named_parameters<typename Mirror::T>(
      device.whole_graph, device.whole_layout.offset, device.map.parts(), mirror.parameters(),
      mirror.gradients(), of_states);
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE int index_to_set(GraphView network, std::string_view name, std::size_t count) {
  int p = 0;
  while (p < network.parameters && parameter_name(network, p) != name) {
    ++p;
  }
  if (p == network.parameters) {
    throw ContractError{"set_parameter(name, values): the network has no parameter '" +
                        std::string{name} + "'; parameters() lists the names"};
  }
  std::int64_t const elements = network.parameter[p].parameter.shape.elements();
  if (static_cast<std::int64_t>(count) != elements) {
    throw ContractError{"set_parameter(name, values): '" + std::string{name} + "' has " +
                        std::to_string(elements) + " numbers, but " + std::to_string(count) +
                        " values are given; give one for each"};
  }
  return p;
}

}  // namespace tandem::detail

#endif
