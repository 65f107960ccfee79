// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads a measured dataflow graph from the text that PipeDream's profiler writes.
///
/// A line is a node (its name, what it is, its costs, perhaps its stage, which is not used) or,
/// if it is indented, an edge:
///
///     node1 -- ReLU(inplace) -- forward_compute_time=0.361, backward_compute_time=0.214,
///         activation_size=51380224.000, parameter_size=0.000 -- stage_id=0     (all on one line)
///         node1 -- node2
///
/// Times are in milliseconds, sizes in bytes; the size of several outputs is a list, [8.0; 4.0].
/// Source: github.com/msr-fiddle/pipedream, graph/graph.py.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/io/file.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
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

inline constexpr char const* pipedream_example =
    "node1 -- ReLU -- forward_compute_time=0.3, backward_compute_time=0.2, "
    "activation_size=1024.0, parameter_size=0.0";

// The text must outlive it. A template, so that it is compiled where it is used.
class PipedreamText {
 public:
  struct Node {
    std::string_view name{};
    std::string_view description{};
    CostNode cost{};  ///< without a name
  };
  struct Edge {
    std::string_view from{};
    std::string_view to{};
  };

  /// @throws FileError  a line is neither a node nor an edge
  PipedreamText(std::string_view text, std::string const& path) : text_{text}, path_{path} {
    if (std::size_t const good = text_length(text); good < text.size()) {
      fail(text.data() + good, "a byte of value " +
                                   std::to_string(static_cast<unsigned char>(text[good])) +
                                   "; this is no text, write the graph as plain text in UTF-8");
    }
    text.remove_prefix(text.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0);  // byte order mark
    while (!text.empty()) {
      std::size_t const length = std::min(text.find('\n'), text.size());
      std::string_view const row = text.substr(0, length);
      text.remove_prefix(std::min(length + 1, text.size()));
      if (std::string_view const line = trimmed(row); !line.empty()) {
        row.front() == '\t' || row.front() == ' ' ? read_edge(line) : read_node(line);
      }
    }
    if (node_.empty()) {
      fail(text_.data(), std::string{"there is no node; write '"} + pipedream_example + "'");
    }
  }

  /// In the order of the file.
  [[nodiscard]] std::vector<Node> const& node() const { return node_; }
  [[nodiscard]] std::vector<Edge> const& edge() const { return edge_; }

  /// Throws; @p at points into the text.
  [[noreturn]] void fail(char const* at, std::string const& what) const {
    std::string_view const before = text_.substr(0, static_cast<std::size_t>(at - text_.data()));
    std::size_t const line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
    auto const line = 1 + std::count(before.begin(), before.end(), '\n');
    throw FileError{path_, "line " + std::to_string(line) + ", column " +
                               std::to_string(before.size() - line_begin + 1) + ": " + what};
  }

  static std::string quoted(std::string_view text) {
    return text.empty() ? "the end of the line" : "'" + printable(text.substr(0, 40)) + "'";
  }

 private:
  static std::string_view trimmed(std::string_view text) {
    auto const blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!text.empty() && blank(text.front())) {
      text.remove_prefix(1);
    }
    while (!text.empty() && blank(text.back())) {
      text.remove_suffix(1);
    }
    return text;
  }

  static char const* end_of(std::string_view text) { return text.data() + text.size(); }

  void check_name(std::string_view name) const {
    if (name.empty() || name.find_first_of(" \t") != name.npos) {
      fail(name.data(),
           "expected the name of a node, one word such as node1, found " + quoted(name));
    }
  }

  void read_edge(std::string_view line) {
    std::size_t const dashes = line.find("--");
    if (dashes == line.npos) {
      fail(end_of(line), "an edge lacks its second node; write it as 'node1 -- node2'");
    }
    Edge const edge{trimmed(line.substr(0, dashes)), trimmed(line.substr(dashes + 2))};
    check_name(edge.from);
    check_name(edge.to);
    if (edge.from == edge.to) {
      fail(edge.to.data(), quoted(edge.to) + " reads itself; an edge leads to another node");
    }
    edge_.push_back(edge);
  }

  void read_node(std::string_view line) {
    std::size_t const dashes = line.find(" -- ");
    if (dashes == line.npos) {
      fail(end_of(line), std::string{"this is no node; write it as '"} + pipedream_example + "'");
    }
    std::string_view const name = trimmed(line.substr(0, dashes));
    check_name(name);
    std::string_view const key = "forward_compute_time=";
    std::size_t const costs = line.rfind(key);  // since a description may hold anything
    if (costs == line.npos) {
      fail(end_of(line), quoted(name) + " lacks its costs; write '" + std::string{key} +
                             "0.3, ...' behind what it is");
    }
    std::string_view description = trimmed(line.substr(dashes + 3, costs - dashes - 3));
    if (description.size() < 2 || description.substr(description.size() - 2) != "--") {
      fail(line.data() + costs, "expected ' -- ' between what the node is and its costs");
    }
    description = trimmed(description.substr(0, description.size() - 2));
    CostNode cost;
    std::string_view rest = line.substr(costs);
    cost.forward = field(rest, key) / 1000;
    cost.backward = field(rest, ", backward_compute_time=") / 1000;
    cost.output_bytes = static_cast<std::int64_t>(field(rest, ", activation_size=") + 0.5);
    cost.parameter_bytes = static_cast<std::int64_t>(field(rest, ", parameter_size=") + 0.5);
    if (!rest.empty() && rest.substr(0, 2) != "--") {
      fail(rest.data(), "expected the end of the line or ' -- stage_id=0', found " + quoted(rest));
    }
    node_.push_back({name, description, cost});
  }

  // The value behind `key`, with which rest begins; rest loses both.
  double field(std::string_view& rest, std::string_view key) const {
    if (rest.substr(0, key.size()) != key) {
      fail(rest.data(), "expected '" + std::string{key} + "' and a number, found " + quoted(rest));
    }
    rest.remove_prefix(key.size());
    bool const list = key == ", activation_size=" && rest.substr(0, 1) == "[";
    rest.remove_prefix(list ? 1 : 0);
    double sum = number(rest, 0);
    while (list && rest.substr(0, 1) == ";") {
      rest.remove_prefix(1);
      sum = number(rest, sum);
    }
    if (list && rest.substr(0, 1) != "]") {
      fail(rest.data(), "the list of sizes is not closed; write it as '[8.0; 4.0]'");
    }
    rest = trimmed(rest.substr(list ? 1 : 0));
    return sum;
  }

  // sum and the number that text begins with, which text loses, and the blanks around it.
  double number(std::string_view& text, double sum) const {
    constexpr double largest = 1e12;  // a million nodes' sum is still finite, and an integer
    text = trimmed(text);
    double value = 0;
    auto const [end, error] = std::from_chars(text.data(), end_of(text), value);
    std::string_view const digits = text.substr(0, static_cast<std::size_t>(end - text.data()));
    if (digits.empty()) {
      fail(end, "expected a number, found " + quoted(text));
    }
    if (error != std::errc{} || !(value >= 0 && sum + value <= largest)) {  // nan too
      fail(text.data(), quoted(digits) + " is no cost; write a number from 0 to 1e12");
    }
    text = trimmed(text.substr(digits.size()));
    return sum + value;
  }

  std::string_view text_;
  std::string const& path_;
  std::vector<Node> node_{};
  std::vector<Edge> edge_{};
};

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
  return parse_pipedream_graph(detail::characters_of(read_file(path, text_file_limit)), path);
}

}  // namespace tandem

#endif
