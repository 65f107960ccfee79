// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// read_graph_file: a measured graph in any of the formats that other planners read.
///
/// Piper: a layer has what it takes on one device, the fastest where there are several ways; its
/// time is that of both passes, of which forward is taken as a third and backward as two. Times
/// are in seconds, sizes in bytes, for one microbatch. What Piper plans on (devices, memory,
/// bandwidth, microbatches of a batch) is not read: flags say it.
/// Source: Tarnawski et al., "Piper: Multidimensional Planner for DNN Parallelization", NeurIPS
/// 2021; github.com/msr-fiddle/piper, README.md and algo.cpp.
///
/// Placement instances: the operators of a colour become one node: its forward ones one pass, its
/// backward ones the other; nodes that wait for each other are one, too. Latencies are those of an
/// accelerator ("FPGA"), in milliseconds as in the published files. A tensor has the bytes of its
/// edge's `size`, which the published files note; without it what passes in its `cost` at 1 GB/s,
/// so that a link of 1 GB/s gives the file's times. What a node holds (`size`) is what it sends and
/// the rest, which stands where weights do. The numbers of devices and their memory are not read:
/// flags say them.
/// Source: Tarnawski et al., NeurIPS 2020; github.com/msr-fiddle/dnn-partitioning, README.md.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/json/value.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/json_graph.hpp>
#include <tandem/plan/cost/pipedream_graph.hpp>
#include <tandem/plan/cost/topological_graph.hpp>

namespace tandem::detail {

/// For each node the lowest of those that it reaches and that reach it: the node that they become.
///
/// Cost: O(nodes + edges). Source: Tarjan 1972, with a list in place of calls.
TANDEM_ONCE Numbered<int> mutual_nodes(std::size_t nodes,
                                       std::set<std::pair<int, int>> const& edges);

}  // namespace tandem::detail

namespace tandem {

/// Who writes a graph so.
enum class GraphFormat {
  pipedream,  ///< PipeDream's profiler: lines, see pipedream_graph.hpp
  piper,      ///< Piper: JSON
  placement   ///< the placement instances of NeurIPS 2020: JSON
};

/// A graph, and what it was read as.
struct GraphFile {
  CostGraph graph{};
  GraphFormat format = GraphFormat::pipedream;

  /// Whether bytes of weights are told from others, so that sums of gradients are known.
  [[nodiscard]] bool knows_weights() const { return format != GraphFormat::placement; }
};

/// The graph that @p text describes. What begins with '{' is JSON: a placement instance where it
/// has "maxFPGAs", else Piper's.
/// @param name  of the file, for messages such as "'graph.json': line 3, column 7: ..."
/// @throws FileError  parse_pipedream_graph() refuses it; or it is not JSON, lacks what its format
///                    has, has a number that is negative or above 1e12, two nodes of one number, an
///                    edge whose node is missing, or a cycle
TANDEM_ONCE [[nodiscard]] GraphFile parse_graph_file(std::string_view text,
                                                     std::string const& name);

/// The graph of a file.
/// @throws FileError  see parse_graph_file(); or the file cannot be read, or is larger than
///                    text_file_limit
TANDEM_ONCE [[nodiscard]] GraphFile read_graph_file(std::string const& path);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// The file's operators and edges, until they are a graph.
class PlacementInstance {
 public:
  /// @throws FileError  as parse_graph_file()
  PlacementInstance(JsonValue const& file, std::string const& path)
      : root_{file, "the file", path}, path_{path}, numbers_{path} {
    for (JsonValue const& value : root_.list("nodes")) {
      add_operator(JsonRecord{value, "a node", path});
    }
    if (!std::count(backward_.begin(), backward_.end(), true)) {
      root_.fail(root_.at("nodes").at,
                 "there is no backward node; give an instance of training, since a step is placed");
    }
    for (JsonValue const& value : root_.at("edges").member) {
      add_edge(JsonRecord{value, "an edge", path});
    }
  }

  [[nodiscard]] CostGraph graph() && {
    Numbered<int> const as = mutual_nodes(node_.size(), edge_);
    for (std::size_t op = 0; op < colour_.size(); ++op) {
      int const colour = colour_[op];
      CostNode& node = node_[static_cast<std::size_t>(as[colour])];
      node.output_bytes += sends(static_cast<int>(op), as) ? sent_[op] : 0;
    }
    std::vector<CostNode> nodes;
    Numbered<int> place(node_.size());
    for (std::size_t n = 0; n < node_.size(); ++n) {
      int const into = as[n];
      if (into == static_cast<int>(n)) {
        place[n] = static_cast<int>(nodes.size());
        nodes.push_back(std::move(node_[n]));
      } else {
        CostNode& whole = nodes[static_cast<std::size_t>(place[into])];
        whole.forward += node_[n].forward;
        whole.backward += node_[n].backward;
        whole.parameter_bytes += node_[n].parameter_bytes;
      }
    }
    for (CostNode& node : nodes) {
      node.parameter_bytes = std::max<std::int64_t>(0, node.parameter_bytes - node.output_bytes);
    }
    std::set<std::pair<int, int>> between;
    for (auto const& [from, to] : edge_) {
      if (as[from] != as[to]) {
        between.emplace(place[as[from]], place[as[to]]);
      }
    }
    std::vector<CostEdge> edges;
    for (auto const& [from, to] : between) {
      edges.push_back({from, to});
    }
    return topological_graph(std::move(nodes), edges, [](CostEdge const&) {});
  }

 private:
  void add_operator(JsonRecord const& op) {
    numbers_.add(op);
    if (!op.truth("supportedOnFpga")) {
      op.fail(op.at("supportedOnFpga").at,
              "node " + std::to_string(op.number("id")) +
                  " runs on a CPU only; give an instance whose nodes all run on accelerators");
    }
    bool const backward = op.truth("isBackwardNode");
    int const colour = colour_of(op);
    CostNode& node = node_[static_cast<std::size_t>(colour)];
    (backward ? node.backward : node.forward) += op.cost("fpgaLatency") / 1000;
    node.parameter_bytes += op.find("size") != nullptr ? std::llround(op.cost("size")) : 0;
    if (node.name.empty() || (!backward && !named_[static_cast<std::size_t>(colour)])) {
      node.name = op.text("name", "node " + std::to_string(op.number("id")));
      named_[static_cast<std::size_t>(colour)] = !backward;
    }
    backward_.push_back(backward);
    colour_.push_back(colour);
    sent_.push_back(0);
    reader_.emplace_back();
  }

  /// Its place among the nodes; without a colour it is one of its own.
  int colour_of(JsonRecord const& op) {
    auto const fresh = static_cast<int>(node_.size());
    int const colour = op.find("colorClass") != nullptr
                           ? colours_.emplace(op.number("colorClass"), fresh).first->second
                           : fresh;
    if (colour == fresh) {
      node_.emplace_back();
      named_.push_back(false);
    }
    return colour;
  }

  void add_edge(JsonRecord const& read) {
    CostEdge const edge = numbers_.edge(read);
    auto const from = static_cast<std::size_t>(edge.from);
    auto const to = static_cast<std::size_t>(edge.to);
    double const cost = read.cost("cost");
    double const bytes = read.find("size") != nullptr ? read.cost("size") : cost * 1e6;
    if (backward_[from] && !backward_[to]) {
      read.fail(read.place(), "this edge leads from a backward to a forward node; turn it round");
    }
    if (!backward_[from] && backward_[to]) {
      return;
    }
    if (!backward_[from]) {
      sent_[from] = std::max<std::int64_t>(sent_[from], std::llround(bytes));
      reader_[from].push_back(colour_[to]);
    }
    if (colour_[from] != colour_[to]) {
      backward_[from] ? edge_.emplace(colour_[to], colour_[from])
                      : edge_.emplace(colour_[from], colour_[to]);
    }
  }

  /// Whether another node reads what the operator gives.
  [[nodiscard]] bool sends(int op, Numbered<int> const& as) const {
    auto const at = static_cast<std::size_t>(op);
    return std::any_of(reader_[at].begin(), reader_[at].end(),
                       [&](int colour) { return as[colour] != as[colour_[at]]; });
  }

  JsonRecord root_;
  std::string const& path_;
  JsonNodeNumbers numbers_;
  std::map<std::int64_t, int> colours_{};
  std::vector<CostNode> node_{};          // of each colour
  std::vector<bool> named_{};             // after a forward operator
  std::set<std::pair<int, int>> edge_{};  // of colours, as forward passes go
  std::vector<bool> backward_{};          // of each operator, as all that follow
  std::vector<int> colour_{};
  std::vector<std::int64_t> sent_{};
  std::vector<std::vector<int>> reader_{};  // colours
};

TANDEM_ONCE Numbered<int> mutual_nodes(std::size_t nodes,
                                       std::set<std::pair<int, int>> const& edges) {
  Numbered<std::vector<int>> reader(nodes);
  for (auto const& [from, to] : edges) {
    reader[from].push_back(to);
  }
  Numbered<int> as(nodes, -1);
  Numbered<int> number(nodes, -1);
  Numbered<int> low(nodes);
  Numbered<std::size_t> next(nodes);  // reader to look at
  std::vector<int> open;              // of no group yet
  std::vector<int> path;
  int count = 0;
  for (std::size_t first = 0; first < nodes; ++first) {
    if (number[first] < 0) {
      path.push_back(static_cast<int>(first));
    }
    while (!path.empty()) {
      int const n = path.back();
      if (number[n] < 0) {
        number[n] = low[n] = count++;
        open.push_back(n);
      }
      if (next[n] < reader[n].size()) {
        int const r = reader[n][next[n]++];
        if (number[r] < 0) {
          path.push_back(r);
        } else if (as[r] < 0) {
          low[n] = std::min(low[n], number[r]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) {
        low[path.back()] = std::min(low[path.back()], low[n]);
      }
      if (low[n] == number[n]) {
        auto group = open.end();
        while (*--group != n) {
        }
        int const name = *std::min_element(group, open.end());
        for (auto member = group; member != open.end(); ++member) {
          as[*member] = name;
        }
        open.erase(group, open.end());
      }
    }
  }
  return as;
}

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

/// @throws FileError  as parse_graph_file()
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

namespace tandem {

TANDEM_ONCE GraphFile parse_graph_file(std::string_view text, std::string const& name) {
  std::size_t const begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos || text[begin] != '{') {
    return {parse_pipedream_graph(text, name), GraphFormat::pipedream};
  }
  detail::JsonValue const file = detail::read_json(text, name, detail::JsonKinds::any);
  if (detail::JsonRecord{file, "the file", name}.find("maxFPGAs") != nullptr) {
    return {detail::PlacementInstance{file, name}.graph(), GraphFormat::placement};
  }
  return {detail::piper_graph(file, name), GraphFormat::piper};
}

TANDEM_ONCE GraphFile read_graph_file(std::string const& path) {
  return parse_graph_file(detail::characters_of(read_file(path, text_file_limit)), path);
}

}  // namespace tandem

#endif
