// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Partition: which part of the model each node of a network belongs to.

#include <cstddef>
#include <cstdint>

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
template <GraphSize Size>
struct PlacementCutter {
  Graph<Size> const& graph;
  NodePlaces<Size.nodes> const& places;
  PlacedParts<Size> parts{};
  int reader[static_cast<std::size_t>(Size.edges > 0 ? Size.edges : 1)] = {};  // of an edge
  int arrival[static_cast<std::size_t>(Size.edges > 0 ? Size.edges : 1)] =
      {};  // of an edge between devices: the first that
           // brings the tensor to that device
  bool leaves[static_cast<std::size_t>(Size.nodes)] =
      {};  // the node's output is wanted on another device

  constexpr PlacedParts<Size> cut() {
    find_arrivals();
    int open[static_cast<std::size_t>(Size.nodes)];  // of a device: its part at work, or -1
    for (int& part : open) {
      part = -1;
    }
    for (int n = 0; n < Size.nodes; ++n) {
      int const first = graph.node[n].first_edge;
      int const end = first + graph.node[n].edges;
      bool receives = false;
      for (int e = first; e < end; ++e) {
        receives = receives || (crosses(e) && arrival[e] == e);
      }
      int& part = open[device(n)];
      if (part < 0 || receives) {
        part = parts.partition.parts++;
        parts.device[part] = static_cast<std::int16_t>(device(n));
      }
      parts.partition.part[n] = static_cast<std::int16_t>(part);
      for (int e = first; e < end; ++e) {
        connect(e);
      }
      part = leaves[n] ? -1 : part;
    }
    number_links();
    return parts;
  }

 private:
  [[nodiscard]] constexpr int device(int node) const { return places.device[node]; }
  [[nodiscard]] constexpr int part(int node) const { return parts.partition.part[node]; }
  [[nodiscard]] constexpr bool is_input(int edge) const {
    return graph.node[graph.source[edge]].kind == NodeKind::input;
  }
  [[nodiscard]] constexpr bool crosses(int edge) const {
    return !is_input(edge) && device(graph.source[edge]) != device(reader[edge]);
  }

  constexpr void find_arrivals() {
    for (int n = 0; n < Size.nodes; ++n) {
      for (int e = graph.node[n].first_edge, end = e + graph.node[n].edges; e < end; ++e) {
        reader[e] = n;
        arrival[e] = e;
        leaves[graph.source[e]] = leaves[graph.source[e]] || crosses(e);
        for (int before = 0; crosses(e) && before < e && arrival[e] == e; ++before) {
          if (graph.source[before] == graph.source[e] && device(reader[before]) == device(n)) {
            arrival[e] = before;
          }
        }
      }
    }
  }

  // A tensor that has come before is read where it came to.
  constexpr void connect(int edge) {
    int const from =
        part(crosses(edge) && arrival[edge] != edge ? reader[arrival[edge]] : graph.source[edge]);
    int const to = part(reader[edge]);
    bool known = from == to || is_input(edge);
    for (int i = 0; !known && i < parts.edges; ++i) {
      known = parts.edge[i].from == from && parts.edge[i].to == to;
    }
    if (!known) {
      int at = parts.edges++;
      for (; at > 0 && parts.edge[at - 1].to == to && parts.edge[at - 1].from > from; --at) {
        parts.edge[at] = parts.edge[at - 1];
      }
      parts.edge[at] = {static_cast<std::int16_t>(from), static_cast<std::int16_t>(to), 0};
    }
  }

  // One an edge, so that what one stage sends waits for nothing that another sends.
  constexpr void number_links() {
    for (int i = 0; i < parts.edges; ++i) {
      StageEdge& own = parts.edge[i];
      bool const between = parts.device[own.from] != parts.device[own.to];
      own.link = between ? static_cast<std::int16_t>(parts.links++) : std::int16_t{-1};
    }
  }
};

}  // namespace detail

/// Cuts a network whose nodes have been placed on devices.
template <GraphSize Size>
constexpr PlacedParts<Size> cut_placed(Graph<Size> const& graph,
                                       NodePlaces<Size.nodes> const& places) {
  return detail::PlacementCutter<Size>{graph, places}.cut();
}

}  // namespace tandem
