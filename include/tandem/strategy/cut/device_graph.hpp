// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// device_graph: the part of a network that one device of a model replica computes, as a graph.
///
/// A tensor that comes from a stage elsewhere is a node of kind `receive` before its first reader;
/// one that leaves ends in a node of kind `send` for each device that wants it. The gradient of a
/// `receive` is what goes back, that of a `send` is what comes back.

#include <cstddef>
#include <cstdint>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/strategy/cut/partition.hpp>

namespace tandem {

namespace detail {

/// What DeviceCutter works in.
struct CutScratch {
  std::int16_t* local;  ///< of a node of the copy at work: index here plus one, or 0
  int* reader;          ///< of an edge
  int* first_reading;   ///< of a node: the first edge that carries its output …
  int* next_reading;    ///< … and of an edge: the next one, or -1
};

/// Walks over the nodes of a device; without a graph to fill it counts. Each node's readers are
/// listed once, so that the walk is about linear in the edges.
struct DeviceCutter {
  GraphView network;
  std::int16_t const* part;  ///< of each node
  StageMapView map;
  int device;
  bool apart;  ///< gradients of several readers elsewhere are sent one by one, not their sum
  CutScratch scratch;
  GraphSize size{};

  template <class G>
  constexpr void cut(G* graph) {
    list_readings();
    bool const names = has_names() && map.is_chain();
    for (int copy = 0; copy < map.copies; ++copy) {
      for (int n = 0; n < network.nodes; ++n) {
        scratch.local[n] = 0;
      }
      for (int n = 0; n < network.nodes; ++n) {
        if (device_of(copy, n) == device) {
          if (names && (n == 0 || part[n] != part[n - 1])) {
            add_all_inputs(graph, copy, n);
          }
          add_inputs(graph, copy, n);
          add_node(graph, copy, n);
          add_sends(graph, copy, n);
        }
      }
    }
  }

 private:
  [[nodiscard]] constexpr int stage_of(int copy, int n) const {
    return copy * map.parts() + part[n];
  }
  [[nodiscard]] constexpr int device_of(int copy, int n) const {
    return map.device[stage_of(copy, n)];
  }
  [[nodiscard]] static constexpr bool is_input(Node const& node) {
    return node.kind == NodeKind::input;
  }

  [[nodiscard]] constexpr bool has_names() const {
    bool any = false;
    for (int n = 0; n < network.nodes; ++n) {
      any = any || network.node[n].named;
    }
    return any;
  }

  constexpr void list_readings() {
    for (int n = 0; n < network.nodes; ++n) {
      scratch.first_reading[n] = -1;
    }
    for (int n = network.nodes - 1; n >= 0; --n) {
      for (int e = network.node[n].first_edge + network.node[n].edges - 1;
           e >= network.node[n].first_edge; --e) {
        scratch.reader[e] = n;
        scratch.next_reading[e] = scratch.first_reading[network.source[e]];
        scratch.first_reading[network.source[e]] = e;
      }
    }
  }

  template <class G>
  constexpr int add(G* graph, Node node, int stage, int edges) {
    node.stage = stage;
    node.first_edge = size.edges;
    node.edges = edges;
    if (graph != nullptr) {
      graph->node[size.nodes] = node;
    }
    return size.nodes++;
  }
  template <class G>
  constexpr void add_edge(G* graph, int source, int origin) {
    if (graph != nullptr) {
      graph->source[size.edges] = source;
      graph->edge_origin[size.edges] = origin;
    }
    ++size.edges;
  }

  // All that comes from elsewhere for the part that node n begins, as it is sent: several values
  // may.
  template <class G>
  constexpr void add_all_inputs(G* graph, int copy, int n) {
    for (int source = 0; source < n; ++source) {
      bool comes = false;
      for (int e = scratch.first_reading[source]; e >= 0; e = scratch.next_reading[e]) {
        comes = comes || part[scratch.reader[e]] == part[n];
      }
      if (comes && !is_input(network.node[source]) && device_of(copy, source) != device) {
        add_input(graph, copy, source, n);
      }
    }
  }

  // What node n reads and is not here yet, in ascending order: as it is sent.
  template <class G>
  constexpr void add_inputs(G* graph, int copy, int n) {
    Node const& node = network.node[n];
    for (int left = node.edges; left > 0; --left) {
      int source = network.nodes;
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        bool const here = scratch.local[network.source[e]] != 0;
        source = !here && network.source[e] < source ? network.source[e] : source;
      }
      if (source == network.nodes) {
        return;
      }
      add_input(graph, copy, source, n);
    }
  }
  template <class G>
  constexpr void add_input(G* graph, int copy, int source, int n) {
    Node end = network.node[source];
    if (!is_input(end)) {
      end = transfer(NodeKind::receive, end, stage_of(copy, source));
    }
    scratch.local[source] = static_cast<std::int16_t>(1 + add(graph, end, stage_of(copy, n), 0));
  }

  template <class G>
  constexpr void add_node(G* graph, int copy, int n) {
    Node node = network.node[n];
    node.first_parameter = size.parameters;
    for (int p = 0; p < node.parameters; ++p, ++size.parameters) {
      if (graph != nullptr) {
        graph->parameter[size.parameters] = network.parameter[network.node[n].first_parameter + p];
        graph->parameter[size.parameters].node = size.nodes;
      }
    }
    scratch.local[n] =
        static_cast<std::int16_t>(1 + add(graph, node, stage_of(copy, n), node.edges));
    for (int e = network.node[n].first_edge, end = e + node.edges; e < end; ++e) {
      add_edge(graph, scratch.local[network.source[e]] - 1, network.edge_origin[e]);
    }
    if (graph != nullptr && n == network.nodes - 1) {
      graph->result = scratch.local[n] - 1;
    }
  }

  // To each device that reads the output of n, in ascending order.
  template <class G>
  constexpr void add_sends(G* graph, int copy, int n) {
    for (int last = -1; !is_input(network.node[n]);) {
      int to = map.devices;
      for (int e = scratch.first_reading[n]; e >= 0; e = scratch.next_reading[e]) {
        int const there = device_of(copy, scratch.reader[e]);
        to = there != device && there > last && there < to ? there : to;
      }
      if (to == map.devices) {
        return;
      }
      add_send(graph, copy, n, to);
      last = to;
    }
  }
  template <class G>
  constexpr void add_send(G* graph, int copy, int n, int to) {
    int edges = 0;
    int first = -1;
    for (int e = scratch.first_reading[n]; e >= 0; e = scratch.next_reading[e]) {
      if (device_of(copy, scratch.reader[e]) == to) {
        first = edges++ == 0 ? e : first;
      }
    }
    Node const end =
        transfer(NodeKind::send, network.node[n], stage_of(copy, scratch.reader[first]));
    edges = apart && !end.named ? edges : 1;
    add(graph, end, stage_of(copy, n), edges);
    for (int e = first; edges > 0; e = scratch.next_reading[e]) {
      if (device_of(copy, scratch.reader[e]) == to) {
        add_edge(graph, scratch.local[n] - 1, network.edge_origin[e]);
        --edges;
      }
    }
  }

  // Along a chain the readers elsewhere are all behind those of a named value's own stage, so that
  // their gradients may be added before.
  [[nodiscard]] constexpr Node transfer(NodeKind kind, Node const& of, int peer) const {
    Node end{.kind = kind,
             .needs_gradient = of.needs_gradient,
             .named = of.named && map.is_chain(),
             .top = of.top};
    end.origin = of.origin;
    end.peer = peer;
    end.in = end.out = of.out;
    end.name = kind == NodeKind::send ? "Send" : "Receive";
    end.path = of.path;
    return end;
  }
};

/// The scratch of a network whose size is a constant.
template <GraphSize Whole>
struct CutArrays {
  std::int16_t local[static_cast<std::size_t>(Whole.nodes)] = {};
  int reader[static_cast<std::size_t>(Whole.edges + 1)] = {};
  int first_reading[static_cast<std::size_t>(Whole.nodes)] = {};
  int next_reading[static_cast<std::size_t>(Whole.edges + 1)] = {};

  constexpr CutScratch scratch() { return {local, reader, first_reading, next_reading}; }
};

}  // namespace detail

/// How large the graph of @p device is. See device_graph().
template <GraphSize Whole, class Map>
constexpr GraphSize device_graph_size(Graph<Whole> const& network,
                                      Partition<Whole.nodes> const& partition, Map const& map,
                                      int device, bool apart) {
  detail::CutArrays<Whole> arrays;
  detail::DeviceCutter cutter{network, partition.part, map, device, apart, arrays.scratch()};
  cutter.cut(static_cast<Graph<Whole>*>(nullptr));
  return cutter.size;
}

/// The graph of one device: its stages' nodes, copy by copy, each in the network's order.
/// @param apart  the gradients that several readers on one device give a tensor from another are
///               sent one by one, so that they are added in the network's order; those of a named
///               value along a chain are added from the last reader to the first anyway
template <GraphSize Own, GraphSize Whole, class Map>
constexpr Graph<Own> device_graph(Graph<Whole> const& network,
                                  Partition<Whole.nodes> const& partition, Map const& map,
                                  int device, bool apart) {
  Graph<Own> graph;
  graph.tops = network.tops;
  graph.result = -1;
  detail::CutArrays<Whole> arrays;
  detail::DeviceCutter cutter{network, partition.part, map, device, apart, arrays.scratch()};
  cutter.cut(&graph);
  return graph;
}

}  // namespace tandem
