// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Ties: the parameters that several layers of a network share, and which devices hold them.
///
/// Each layer has a copy of its own, in values and in gradients, so that passes and buckets know
/// nothing of it. Before the update the copies' gradients are added, in the network's order: those
/// of one device by itself, then those of the devices, a group for each of the model's copies.

#include <cstddef>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem {

/// The devices, in the order of the model's parts, that hold the parameter of a tie.
struct TieDevices {
  static constexpr int most = 16;
  int count = 0;
  int device[most] = {};

  [[nodiscard]] constexpr bool crosses() const { return count > 1; }
};

/// @tparam Count  ties: parameters with an owner, each once
template <int Count>
struct Ties {
  static constexpr int count = Count;
  int copies = 1;  ///< of the model
  int owner[static_cast<std::size_t>(Count > 0 ? Count : 1)] =
      {};  ///< of each, its index in the network's graph
  TieDevices of[2][static_cast<std::size_t>(Count > 0 ? Count : 1)] = {};  ///< of each copy and tie

  /// Whether a parameter is on more than one device.
  [[nodiscard]] constexpr bool crosses() const { return groups() > 0; }
  /// How many of them are, counted in every copy of the model.
  [[nodiscard]] constexpr int groups() const {
    int number = 0;
    for (int copy = 0; copy < copies; ++copy) {
      for (int t = 0; t < Count; ++t) {
        number += of[copy][t].crosses() ? 1 : 0;
      }
    }
    return number;
  }
  /// Devices that hold one of them, at most.
  [[nodiscard]] constexpr int widest() const {
    int most = 0;
    for (int copy = 0; copy < copies; ++copy) {
      for (int t = 0; t < Count; ++t) {
        most = of[copy][t].count > most ? of[copy][t].count : most;
      }
    }
    return most;
  }
};

namespace detail {

/// Whether parameter @p p is its own, and other layers share it.
constexpr bool is_tied(GraphView graph, int p) {
  int holders = 0;
  for (int q = p; q < graph.parameters; ++q) {
    holders += graph.parameter[q].owner() == p ? 1 : 0;
  }
  return holders > 1;
}

}  // namespace detail

/// Ties of a network.
constexpr int count_ties(GraphView graph) {
  int count = 0;
  for (int p = 0; p < graph.parameters; ++p) {
    count += detail::is_tied(graph, p) ? 1 : 0;
  }
  return count;
}

namespace detail {

/// The devices that have parameter @p owner in one of the model's copies.
constexpr TieDevices tie_devices(GraphView graph, std::int16_t const* part, StageMapView const& map,
                                 int copy, int owner) {
  TieDevices own;
  for (int q = owner; q < graph.parameters; ++q) {
    if (graph.parameter[q].owner() != owner) {
      continue;
    }
    int const device = map.device[copy * map.parts() + part[graph.parameter[q].node]];
    bool known = false;
    for (int d = 0; d < own.count; ++d) {
      known = known || own.device[d] == device;
    }
    if (!known) {
      expects(own.count < TieDevices::most, "a parameter may be shared by at most 16 devices");
      own.device[own.count++] = device;
    }
  }
  return own;
}

}  // namespace detail

/// @param part  of each node: its part of the model
template <int Count>
constexpr Ties<Count> find_ties(GraphView graph, std::int16_t const* part,
                                StageMapView const& map) {
  Ties<Count> ties{.copies = map.copies};
  int count = 0;
  for (int p = 0; p < graph.parameters && count < Count; ++p) {
    if (detail::is_tied(graph, p)) {
      ties.owner[count] = p;
      for (int copy = 0; copy < map.copies; ++copy) {
        ties.of[copy][count] = detail::tie_devices(graph, part, map, copy, p);
      }
      ++count;
    }
  }
  return ties;
}

}  // namespace tandem
