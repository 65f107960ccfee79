// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads a measured dataflow graph from the text that PipeDream's profiler writes; the format
/// stands in pipedream_text.hpp.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/io/file.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/pipedream_text.hpp>
#include <tandem/plan/cost/topological_graph.hpp>

namespace tandem {

namespace detail {

// Each edge as places in the file's list of nodes, with where it stands in the text.
using PlacedEdges = std::map<std::pair<int, int>, char const*>;

}  // namespace detail

/// The graph that @p text describes; nodes are named as in "node7 LSTM(2048, 1024)".
///
/// Nodes are in topological order, of those that could come next the first of the file; edges are
/// sorted by their first node, then their second. Times are in seconds; the outputs of a node count
/// as one tensor. A node that reads no other and whose description begins with "Input" costs
/// nothing: what was measured there is the loading of data, no work of the device (PipeDream's
/// optimizer takes it out as well).
///
/// Cost:   O((nodes + edges) log(nodes + edges)).
/// @param name  of the file, for messages such as "'graph.txt': line 3, column 7: ..."
/// @throws FileError  a line is neither a node nor an edge, a field is missing, a number negative,
///                    not finite or above 1e12, a node or an edge there twice, an edge's node
///                    missing, there is a cycle, or no node
TANDEM_ONCE [[nodiscard]] CostGraph parse_pipedream_graph(std::string_view text,
                                                          std::string const& name);

/// The graph of a file.
/// @throws FileError  see parse_pipedream_graph; or the file cannot be read, or is larger
///                    than text_file_limit
TANDEM_ONCE [[nodiscard]] CostGraph read_pipedream_graph(std::string const& path);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE PlacedEdges placed_edges(PipedreamText const& text) {
  std::map<std::string_view, int> index;
  for (auto const& [name, description, cost] : text.node()) {
    if (!index.emplace(name, static_cast<int>(index.size())).second) {
      text.fail(name.data(), text.quoted(name) +
                                 " is here for a second time; each node needs a "
                                 "name of its own");
    }
  }
  auto const find = [&](std::string_view name) {
    auto const found = index.find(name);
    if (found == index.end()) {
      text.fail(name.data(), "there is no node " + text.quoted(name) +
                                 "; write its line or leave out this edge");
    }
    return found->second;
  };
  PlacedEdges edges;
  for (auto const& [from, to] : text.edge()) {
    if (!edges.emplace(std::pair{find(from), find(to)}, from.data()).second) {
      text.fail(from.data(), "the edge from " + text.quoted(from) + " to " + text.quoted(to) +
                                 " is here for a second time; leave it out");
    }
  }
  return edges;
}

TANDEM_ONCE CostNode pipedream_node(PipedreamText::Node const& read, bool reads_another) {
  CostNode node = read.cost;
  if (!reads_another && read.description.substr(0, 5) == "Input") {
    node = {};
  }
  node.name = std::string{read.name} + (read.description.empty() ? "" : " ");
  node.name += read.description;
  return node;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE CostGraph parse_pipedream_graph(std::string_view text, std::string const& name) {
  detail::PipedreamText const lines{text, name};
  detail::PlacedEdges const placed = detail::placed_edges(lines);
  std::vector<CostEdge> edges;
  detail::Numbered<bool> reads_another(lines.node().size());
  for (auto const& [edge, where] : placed) {
    edges.push_back({edge.first, edge.second});
    reads_another[edge.second] = true;
  }
  std::vector<CostNode> nodes;
  for (detail::PipedreamText::Node const& read : lines.node()) {
    nodes.push_back(detail::pipedream_node(read, reads_another[nodes.size()]));
  }
  return detail::topological_graph(std::move(nodes), edges, [&](CostEdge const& edge) {
    auto const quoted = [&](int n) {
      return lines.quoted(lines.node()[static_cast<std::size_t>(n)].name);
    };
    lines.fail(placed.at({edge.from, edge.to}),
               "the edge from " + quoted(edge.from) + " to " + quoted(edge.to) +
                   " closes a cycle; leave out one of the cycle's edges");
  });
}

TANDEM_ONCE CostGraph read_pipedream_graph(std::string const& path) {
  std::vector<std::uint8_t> const bytes = read_file(path, text_file_limit);
  return parse_pipedream_graph(
      std::string_view{reinterpret_cast<char const*>(bytes.data()), bytes.size()}, path);
}

}  // namespace tandem

#endif
