// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StageMap: which device of a model replica has which stage, and between which stages tensors go.

#include <cstddef>
#include <cstdint>

namespace tandem {

/// Outputs of stage `from` are inputs of stage `to`. If both are on one device nothing is sent;
/// else one message a microbatch goes over `link`, and its gradient comes back over the same one.
/// Messages of a link and a direction arrive in the order in which they were sent.
struct StageEdge {
  std::int16_t from = 0;
  std::int16_t to = 0;
  std::int16_t link = 0;

  friend constexpr bool operator==(StageEdge const&, StageEdge const&) = default;
};

/// The stages of one replica of a model. Every edge leads from a lower stage to a higher one.
///
/// A stage's copies (Chimera has two, in opposite directions) are stages of their own: with
/// `copies` of `parts` stages each, stage c * parts + k is copy c of part k. Copy c trains on the
/// c-th of `copies` equal runs of the replica's microbatches.
/// @tparam Stages, Edges  of all copies
template <int Stages, int Edges>
struct StageMap {
  static constexpr int stages = Stages;
  static constexpr int edges = Edges;
  int devices = 1;
  int copies = 1;
  int links = 0;
  std::int16_t device[static_cast<std::size_t>(Stages)] = {};
  StageEdge edge[static_cast<std::size_t>(Edges > 0 ? Edges : 1)] = {};

  [[nodiscard]] constexpr int parts() const { return Stages / copies; }
};

/// `Devices * Chunks` stages in a chain, stage k on device k modulo Devices.
template <int Devices, int Chunks = 1>
constexpr auto chain_map() {
  constexpr int stages = Devices * Chunks;
  StageMap<stages, stages - 1> map{.devices = Devices};
  for (int s = 0; s < stages; ++s) {
    map.device[s] = static_cast<std::int16_t>(s % Devices);
    if (s > 0) {
      map.edge[s - 1] = {static_cast<std::int16_t>(s - 1), static_cast<std::int16_t>(s),
                         static_cast<std::int16_t>(s - 1)};
    }
  }
  map.links = stages - 1;
  return map;
}

/// A chain of `2 * Devices` stages that turns back at the last device: stages k and 2 Devices - 1 -
/// k on device k. Between the two of the last device nothing is sent.
template <int Devices>
constexpr auto turning_map() {
  auto map = chain_map<Devices, 2>();
  for (int s = Devices; s < 2 * Devices; ++s) {
    map.device[s] = static_cast<std::int16_t>(2 * Devices - 1 - s);
    --map.edge[s - 1].link;  // of the one that turns back, no link's
  }
  --map.links;
  return map;
}

/// Two chains in opposite directions: stage k on device k, its copy on device Devices - 1 - k.
template <int Devices>
constexpr auto bidirectional_map() {
  StageMap<2 * Devices, 2 * (Devices - 1)> map{.devices = Devices, .copies = 2};
  for (int s = 0; s < Devices; ++s) {
    map.device[s] = static_cast<std::int16_t>(s);
    map.device[Devices + s] = static_cast<std::int16_t>(Devices - 1 - s);
  }
  for (int copy = 0; copy < 2; ++copy) {
    for (int s = 1; s < Devices; ++s) {
      int const to = copy * Devices + s;
      map.edge[map.links] = {static_cast<std::int16_t>(to - 1), static_cast<std::int16_t>(to),
                             static_cast<std::int16_t>(map.links)};
      ++map.links;
    }
  }
  return map;
}

}  // namespace tandem
