// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Partition: which part of the model each node of a network belongs to.

#include <cstddef>
#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/schedule/table/stage_map.hpp>

namespace tandem {

/// Parts are numbered so that tensors go from lower ones to higher ones only. The network's input
/// is in part 0, but every part that reads it is fed with it.
template <int Nodes>
struct Partition {
  int parts = 1;
  std::int16_t part[static_cast<std::size_t>(Nodes)] = {};
};

/// Consecutive top-level parts of the network: the first @p counts[0] of them, the next
/// @p counts[1], …
/// @param part  of each node, to be filled
constexpr void cut_tops(GraphView graph, int const* counts, int parts, std::int16_t* part) {
  for (int n = 0; n < graph.nodes; ++n) {
    int own = 0;
    for (int end = counts[0]; own < parts - 1 && graph.node[n].top >= end; end += counts[own]) {
      ++own;
    }
    part[n] = static_cast<std::int16_t>(own);
  }
}
template <GraphSize Size>
constexpr Partition<Size.nodes> cut_tops(Graph<Size> const& graph, int const* counts, int parts) {
  Partition<Size.nodes> partition{.parts = parts};
  cut_tops(graph, counts, parts, partition.part);
  return partition;
}

/// A device for each node of a network.
template <int Nodes>
struct NodePlaces {
  std::int16_t device[static_cast<std::size_t>(Nodes)] = {};
};

/// A placed network's parts: runs of nodes on one device, as long as they can be with transfers to
/// them at their beginning and from them at their end, so that a tensor leaves as soon as it is
/// made and comes as late as it can.
template <GraphSize Size>
struct PlacedParts {
  Partition<Size.nodes> partition{.parts = 0};
  std::int16_t device[static_cast<std::size_t>(Size.nodes)] = {};  ///< of each part
  StageEdge edge[static_cast<std::size_t>(Size.edges)] = {};  ///< one a pair of parts, ascending
  int edges = 0;
  int links = 0;  ///< one an edge between devices
};

namespace detail {

/// Cuts a placed network.
struct PlacementCutter {
  GraphView graph;
  std::int16_t const* places;  ///< of each node: its device
  std::int16_t* part;          ///< of each node, to be filled, as what follows
  std::int16_t* device;        ///< of each part: as many as nodes, at most
  StageEdge* edge;             ///< as many as the network's, at most
  int parts = 0;
  int edges = 0;
  int links = 0;
  int* reader = nullptr;   ///< scratch: of an edge
  int* arrival = nullptr;  ///< of an edge between devices: the first that brings the tensor there

  constexpr void cut() {
    Scratch<int> reader_of{graph.edges};
    Scratch<int> arrival_of{graph.edges};
    Scratch<bool> leaves{graph.nodes};  // the node's output is wanted on another device
    reader = reader_of.data();
    arrival = arrival_of.data();
    find_arrivals(leaves.data());
    Scratch<int> open{graph.nodes, -1};  // of a device: its part at work, or -1
    for (int n = 0; n < graph.nodes; ++n) {
      int const first = graph.node[n].first_edge;
      int const end = first + graph.node[n].edges;
      bool receives = false;
      for (int e = first; e < end; ++e) {
        receives = receives || (crosses(e) && arrival[e] == e);
      }
      int& own = open[places[n]];
      if (own < 0 || receives) {
        own = parts++;
        device[own] = places[n];
      }
      part[n] = static_cast<std::int16_t>(own);
      for (int e = first; e < end; ++e) {
        connect(e);
      }
      own = leaves[n] ? -1 : own;
    }
    number_links();
  }

 private:
  [[nodiscard]] constexpr bool is_input(int e) const {
    return graph.node[graph.source[e]].kind == NodeKind::input;
  }
  [[nodiscard]] constexpr bool crosses(int e) const {
    return !is_input(e) && places[graph.source[e]] != places[reader[e]];
  }

  constexpr void find_arrivals(bool* leaves) {
    for (int n = 0; n < graph.nodes; ++n) {
      for (int e = graph.node[n].first_edge, end = e + graph.node[n].edges; e < end; ++e) {
        reader[e] = n;
        arrival[e] = e;
        leaves[graph.source[e]] = leaves[graph.source[e]] || crosses(e);
        for (int before = 0; crosses(e) && before < e && arrival[e] == e; ++before) {
          if (graph.source[before] == graph.source[e] && places[reader[before]] == places[n]) {
            arrival[e] = before;
          }
        }
      }
    }
  }

  // A tensor that has come before is read where it came to.
  constexpr void connect(int e) {
    int const from = part[crosses(e) && arrival[e] != e ? reader[arrival[e]] : graph.source[e]];
    int const to = part[reader[e]];
    bool known = from == to || is_input(e);
    for (int i = 0; !known && i < edges; ++i) {
      known = edge[i].from == from && edge[i].to == to;
    }
    if (!known) {
      int at = edges++;
      for (; at > 0 && edge[at - 1].to == to && edge[at - 1].from > from; --at) {
        edge[at] = edge[at - 1];
      }
      edge[at] = {static_cast<std::int16_t>(from), static_cast<std::int16_t>(to), 0};
    }
  }

  // One an edge, so that what one stage sends waits for nothing that another sends.
  constexpr void number_links() {
    for (int i = 0; i < edges; ++i) {
      bool const between = device[edge[i].from] != device[edge[i].to];
      edge[i].link = between ? static_cast<std::int16_t>(links++) : std::int16_t{-1};
    }
  }
};

}  // namespace detail

/// Cuts a network whose nodes have been placed on devices.
template <GraphSize Size>
constexpr PlacedParts<Size> cut_placed(Graph<Size> const& graph,
                                       NodePlaces<Size.nodes> const& places) {
  PlacedParts<Size> parts;
  detail::PlacementCutter cutter{.graph = graph,
                                 .places = places.device,
                                 .part = parts.partition.part,
                                 .device = parts.device,
                                 .edge = parts.edge};
  cutter.cut();
  parts.partition.parts = cutter.parts;
  parts.edges = cutter.edges;
  parts.links = cutter.links;
  return parts;
}

}  // namespace tandem
