// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads the networks that Piper plans for: layers, each with its time on one device and on several
/// that share it ("TMPCs"), and edges with bytes.
///
/// Of a layer what it takes on one device is read, the fastest where there are several ways; its
/// time is that of both passes, of which forward is taken as a third and backward as two. Times
/// are in seconds, sizes in bytes, for one microbatch. What Piper plans on (devices, memory,
/// bandwidth, microbatches of a batch) is not read: flags say it.
/// Source: Tarnawski et al., "Piper: Multidimensional Planner for DNN Parallelization", NeurIPS
/// 2021; github.com/msr-fiddle/piper, README.md and algo.cpp.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/json/value.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/json_graph.hpp>
#include <tandem/plan/cost/topological_graph.hpp>

namespace tandem::detail {

/// @throws FileError  as parse_graph_file()
TANDEM_ONCE CostGraph piper_graph(JsonValue const& file, std::string const& path);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE CostNode piper_node(JsonRecord const& node, std::string const& path) {
  std::int64_t const number = node.number("id");
  JsonRecord const ways{node.at("TMPCs"), "\"TMPCs\"", path};
  if (ways.find("1") == nullptr) {
    node.fail(ways.place(), "node " + std::to_string(number) +
                                " has no times on 1 device; add \"1\": [{...}] to its \"TMPCs\"");
  }
  CostNode read{.name = node.text("name", "node") + " " + std::to_string(number)};
  double best = HUGE_VAL;
  for (JsonValue const& value : ways.list("1")) {
    JsonRecord const way{value, "a way to run a node", path};
    double const seconds = way.cost("timePerSample");
    if (seconds < best) {
      best = seconds;
      read.parameter_bytes = std::llround(way.cost("parameterSize"));
    }
  }
  read.forward = best / 3;
  read.backward = best - read.forward;
  return read;
}

TANDEM_ONCE CostGraph piper_graph(JsonValue const& file, std::string const& path) {
  JsonRecord const root{file, "the file", path};
  JsonNodeNumbers numbers{path};
  std::vector<CostNode> nodes;
  for (JsonValue const& value : root.list("nodes")) {
    JsonRecord const node{value, "a node", path};
    numbers.add(node);
    nodes.push_back(piper_node(node, path));
  }
  std::vector<CostEdge> edges;
  std::map<std::pair<int, int>, JsonPlace> place;
  JsonValue const& list = root.at("edges");
  for (JsonValue const& value : list.member) {
    JsonRecord const read{value, "an edge", path};
    CostEdge const edge = numbers.edge(read);
    if (!place.emplace(std::pair{edge.from, edge.to}, value.at).second) {
      root.fail(value.at, "this edge is here for a second time; leave it out");
    }
    std::int64_t& bytes = nodes[static_cast<std::size_t>(edge.from)].output_bytes;
    bytes = std::max<std::int64_t>(bytes, std::llround(read.cost("communicationCost")));
    edges.push_back(edge);
  }
  return topological_graph(std::move(nodes), edges, [&](CostEdge const& edge) {
    root.fail(place.at({edge.from, edge.to}),
              "this edge closes a cycle; leave out one of the cycle's edges");
  });
}

}  // namespace tandem::detail

#endif
