// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StageMapView: what an algorithm reads of a StageMap, or of one that was made at run time.
///
/// A view keeps pointers: the map must live as long as it.

#include <cstdint>
#include <vector>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/stage_map.hpp>

namespace tandem {

struct StageMapView {
  int stages = 0;
  int edges = 0;
  int devices = 1;
  int copies = 1;
  int links = 0;
  std::int16_t const* device = nullptr;  ///< of each stage
  StageEdge const* edge = nullptr;

  constexpr StageMapView() = default;

  template <int Stages, int Edges>
  constexpr StageMapView(StageMap<Stages, Edges> const& map)
      : stages{Stages},
        edges{Edges},
        devices{map.devices},
        copies{map.copies},
        links{map.links},
        device{map.device},
        edge{map.edge} {}

  [[nodiscard]] constexpr int parts() const { return stages / copies; }

  /// The same part in the other copy, of two.
  [[nodiscard]] constexpr int twin(int stage) const { return (stage + parts()) % stages; }

  /// Whether messages go over this edge: its stages are on two devices.
  [[nodiscard]] constexpr bool crosses(int e) const {
    return device[edge[e].from] != device[edge[e].to];
  }

  /// What a link has in each direction: messages on it are taken in the order in which they are
  /// sent.
  [[nodiscard]] constexpr int channels() const { return 2 * links; }
  [[nodiscard]] constexpr int channel(int e, bool forward) const {
    return 2 * edge[e].link + (forward ? 0 : 1);
  }

  /// Whether tensors go from each stage to the next one only.
  [[nodiscard]] constexpr bool is_chain() const {
    bool chain = edges == stages - copies;
    for (int e = 0; e < edges; ++e) {
      chain = chain && edge[e].to == edge[e].from + 1;
    }
    return chain;
  }

  /// The first of the replica's microbatches that a stage's copy trains on.
  [[nodiscard]] constexpr int first_microbatch(int stage, int microbatches) const {
    return stage / parts() * (microbatches / copies);
  }
};

/// A StageMap whose size is known at run time only.
struct RuntimeMap {
  int devices = 1;
  int copies = 1;
  int links = 0;
  std::vector<std::int16_t> device;
  std::vector<StageEdge> edge;

  RuntimeMap() = default;

  template <int Stages, int Edges>
  explicit RuntimeMap(StageMap<Stages, Edges> const& map)
      : devices{map.devices},
        copies{map.copies},
        links{map.links},
        device(map.device, map.device + Stages),
        edge(map.edge, map.edge + Edges) {}

  operator StageMapView() const {
    StageMapView view;
    view.stages = static_cast<int>(device.size());
    view.edges = static_cast<int>(edge.size());
    view.devices = devices;
    view.copies = copies;
    view.links = links;
    view.device = device.data();
    view.edge = edge.data();
    return view;
  }
};

/// Whether stages are on devices that exist, edges lead upwards inside a copy, and all edges of a
/// link lead from one device to one other.
constexpr bool is_sound(StageMapView const& map) {
  constexpr int most = 32'767;  // stages, devices and links have numbers of 16 bits
  if (map.stages < 1 || map.devices < 1 || map.copies < 1 || map.stages % map.copies != 0 ||
      map.links < 0 || map.stages > most + 1 || map.devices > most + 1 || map.links > most + 1) {
    return false;
  }
  for (int s = 0; s < map.stages; ++s) {
    if (map.device[s] < 0 || map.device[s] >= map.devices) {
      return false;
    }
  }
  detail::Scratch<int> ends_of_link{map.links, -1};
  for (int e = 0; e < map.edges; ++e) {
    StageEdge const edge = map.edge[e];
    if (edge.from < 0 || edge.from >= edge.to || edge.to >= map.stages ||
        edge.from / map.parts() != edge.to / map.parts()) {
      return false;
    }
    if (!map.crosses(e)) {
      continue;
    }
    if (edge.link < 0 || edge.link >= map.links) {
      return false;
    }
    int const ends = map.device[edge.from] * map.devices + map.device[edge.to];
    if (ends_of_link[edge.link] >= 0 && ends_of_link[edge.link] != ends) {
      return false;
    }
    ends_of_link[edge.link] = ends;
  }
  return true;
}

}  // namespace tandem
