// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Relays: where a network is cut into a chain, a value that Let has named and that a stage further
/// on reads goes from stage to stage.
///
/// Each stage between has a node for it, the relay, a view of what the stage before it sent: sent
/// from where it arrived, so that nothing is copied. All between two stages is then a tensor from a
/// stage to the next one, which links, schedules and plans know; a relay's gradient is the sum over
/// all readers further on.

#include <cstddef>
#include <cstdint>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/partition.hpp>

namespace tandem {

namespace detail {

/// What RelayBuilder works in.
struct RelayScratch {
  int* reach;  ///< of a node that has been named: the last part that reads it; else -1
  int* local;  ///< of a node of the network: which one of the new graph has its value here
};

/// Walks over the nodes of a network; without a graph to fill it counts.
struct RelayBuilder {
  GraphView network;
  std::int16_t const* part;  ///< of each node
  RelayScratch scratch;
  GraphSize size{};

  /// @param parts  of the new graph's nodes
  template <class G>
  constexpr void build(G* graph, std::int16_t* parts) {
    find_reaches();
    for (int n = 0; n < network.nodes; ++n) {
      add(graph, parts, network.node[n], part[n]);
      scratch.local[n] = size.nodes - 1;
      for (int e = network.node[n].first_edge, end = e + network.node[n].edges; e < end; ++e) {
        add_edge(graph, scratch.local[network.source[e]], e);
      }
      if (graph != nullptr && n == network.result) {
        graph->result = scratch.local[n];
      }
      if (n + 1 < network.nodes && part[n + 1] > part[n]) {
        add_relays(graph, parts, n);
      }
    }
  }

 private:
  constexpr void find_reaches() {
    for (int n = 0; n < network.nodes; ++n) {
      bool const goes = network.node[n].named && network.node[n].kind != NodeKind::input;
      scratch.reach[n] = goes ? part[n] : -1;
      for (int e = network.node[n].first_edge, end = e + network.node[n].edges; e < end; ++e) {
        int& reach = scratch.reach[network.source[e]];
        reach = reach >= 0 && part[n] > reach ? part[n] : reach;
      }
    }
  }

  template <class G>
  constexpr void add(G* graph, std::int16_t* parts, Node node, int of_part) {
    node.first_edge = size.edges;
    if (graph != nullptr) {
      for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
        graph->parameter[p] = network.parameter[p];
        graph->parameter[p].node = size.nodes;
      }
      graph->node[size.nodes] = node;
      parts[size.nodes] = static_cast<std::int16_t>(of_part);
    }
    ++size.nodes;
  }
  template <class G>
  constexpr void add_edge(G* graph, int source, int edge) {
    if (graph != nullptr) {
      graph->source[size.edges] = source;
      graph->edge_origin[size.edges] = network.edge_origin[edge];
    }
    ++size.edges;
  }

  // Behind the last node of a part, whose own readers come before those further on.
  template <class G>
  constexpr void add_relays(G* graph, std::int16_t* parts, int last) {
    for (int v = 0; v < last; ++v) {
      if (part[v] >= part[last] || scratch.reach[v] <= part[last]) {
        continue;  // it is sent from where it was made, or ends here
      }
      Node const& of = network.node[v];
      Node relay{.kind = NodeKind::layer,
                 .needs_gradient = of.needs_gradient,
                 .view = true,
                 .named = true,
                 .top = network.node[last].top};
      relay.origin = of.origin;
      relay.edges = 1;
      relay.in = relay.out = of.out;
      relay.kept = Kept::of(false, false);
      relay.name = "Relay";
      relay.path = of.path;
      add(graph, parts, relay, part[last]);
      add_edge(graph, scratch.local[v], first_reading(v, part[last]));
      scratch.local[v] = size.nodes - 1;
    }
  }
  // Of a value, beyond a part.
  [[nodiscard]] constexpr int first_reading(int v, int beyond) const {
    for (int n = v + 1; n < network.nodes; ++n) {
      for (int e = network.node[n].first_edge, end = e + network.node[n].edges; e < end; ++e) {
        if (network.source[e] == v && part[n] > beyond) {
          return e;
        }
      }
    }
    return 0;
  }
};

/// Whether some value needs relays: a chain's parts stand one behind another in the network.
constexpr bool needs_relays(GraphView network, std::int16_t const* part, StageMapView const& map) {
  bool names = false;
  for (int n = 0; n < network.nodes; ++n) {
    names = names || network.node[n].named;
  }
  bool far = false;
  for (int n = 0; names && n < network.nodes; ++n) {
    if (n > 0 && part[n] < part[n - 1]) {
      return false;
    }
    for (int e = network.node[n].first_edge, end = e + network.node[n].edges; e < end; ++e) {
      Node const& source = network.node[network.source[e]];
      far = far || (source.named && source.kind != NodeKind::input &&
                    part[n] > part[network.source[e]] + 1);
    }
  }
  return far && map.is_chain();
}

/// The scratch of a network whose size is a constant.
template <GraphSize Whole>
struct RelayArrays {
  int reach[static_cast<std::size_t>(Whole.nodes)] = {};
  int local[static_cast<std::size_t>(Whole.nodes)] = {};

  constexpr RelayScratch scratch() { return {reach, local}; }
};

}  // namespace detail

/// A network with relays, and its parts.
template <GraphSize Size>
struct RelayedNetwork {
  Graph<Size> graph{};
  Partition<Size.nodes> partition{};
};

/// How large a network with relays is; as large as without where it needs none.
template <GraphSize Whole, class Map>
constexpr GraphSize relayed_size(Graph<Whole> const& network,
                                 Partition<Whole.nodes> const& partition, Map const& map) {
  if (!detail::needs_relays(network, partition.part, map)) {
    return Whole;
  }
  detail::RelayArrays<Whole> arrays;
  detail::RelayBuilder builder{network, partition.part, arrays.scratch()};
  builder.build(static_cast<Graph<Whole>*>(nullptr), nullptr);
  return {builder.size.nodes, builder.size.edges, Whole.parameters};
}

/// @pre Size == relayed_size(network, partition, map), of a network that needs relays
template <GraphSize Size, GraphSize Whole>
constexpr RelayedNetwork<Size> relayed(Graph<Whole> const& network,
                                       Partition<Whole.nodes> const& partition) {
  RelayedNetwork<Size> made;
  made.graph.tops = network.tops;
  made.partition.parts = partition.parts;
  detail::RelayArrays<Whole> arrays;
  detail::RelayBuilder builder{network, partition.part, arrays.scratch()};
  builder.build(&made.graph, made.partition.part);
  return made;
}

}  // namespace tandem
