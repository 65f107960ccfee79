// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// layer_table: a row for each layer of a graph, or for each of its top-level parts.

#include <cstdint>
#include <cstdio>
#include <string>

#include <tandem/comm/volume.hpp>
#include <tandem/core/config.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem::detail {

struct LayerRow {
  std::string path;
  std::string name;
  std::string shape;
  std::int64_t parameters = 0;
  double mmacs = 0.0;
  double kib = 0.0;

  TANDEM_ONCE [[nodiscard]] std::string text() const;
};

/// Elements of a node's weights; those that it shares, too.
TANDEM_ONCE std::int64_t weights_of(GraphView graph, Node const& node);

/// @param tops  of the network
TANDEM_ONCE std::string layer_table(GraphView graph, std::string const& title, int tops,
                                    bool top_only);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string LayerRow::text() const {
  char line[256];
  std::snprintf(line, sizeof line, "%-18.60s %-14.40s %12.40s %12lld %12.2f %12.1f\n", path.c_str(),
                name.c_str(), shape.c_str(), static_cast<long long>(parameters), mmacs, kib);
  return line;
}

TANDEM_ONCE std::int64_t weights_of(GraphView graph, Node const& node) {
  std::int64_t sum = 0;
  for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
    Parameter const& parameter = graph.parameter[p].parameter;
    sum += parameter.role == Role::weight ? parameter.shape.elements() : 0;
  }
  return sum;
}

/// Where the copies of a shared weight lie. The sum of their gradients is counted as a ring's.
TANDEM_ONCE std::string shared_weights(GraphView graph) {
  std::string text;
  for (int owner = 0; owner < graph.parameters; ++owner) {
    std::string layers;
    int holders = 0;
    for (int p = owner; p < graph.parameters; ++p) {
      if (graph.parameter[p].owner() == owner) {
        Node const& node = graph.node[graph.parameter[p].node];
        layers += (holders++ > 0 ? " and " : "") + std::string{node.name} + " of part " +
                  std::to_string(node.top);
      }
    }
    if (holders > 1) {
      std::int64_t const bytes = 4 * graph.parameter[owner].parameter.shape.elements();
      char mib[32];
      std::snprintf(mib, sizeof mib, "%.1f", static_cast<double>(bytes) / (1 << 20));
      text += "shared: " + parameter_name(graph, owner) + ", counted once, lies with " + layers +
              ", " + mib + " MiB each\n        in a step " +
              std::to_string(all_reduce_bytes(2, bytes)) +
              " bytes of its gradient go each way between two devices that have it; on one device, "
              "none\n";
    }
  }
  return text;
}

TANDEM_ONCE std::string layer_table(GraphView graph, std::string const& title, int tops,
                                    bool top_only) {
  std::string text = title + " on " + to_string(graph.node[0].out) + ", for one sample in fp32\n";
  char heads[256];
  std::snprintf(heads, sizeof heads, "%-18s %-14s %12s %12s %12s %12s\n", "layer", "kind", "output",
                "parameters", "MMACs", "KiB");
  text += heads;
  LayerRow part;
  LayerRow total{"total", std::to_string(tops) + " parts", to_string(graph.node[graph.result].out)};
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    if (node.kind == NodeKind::input) {
      continue;
    }
    LayerRow const row{to_string(node.path),
                       std::string{node.name},
                       to_string(node.out),
                       weights_of(graph, node),
                       static_cast<double>(node.macs) / 1e6,
                       node.view ? 0.0 : static_cast<double>(node.out.elements()) * 4 / 1024};
    total.mmacs += row.mmacs;
    total.kib += row.kib;
    if (!top_only) {
      text += row.text();
      continue;
    }
    part = {
        std::to_string(node.top), row.name,          row.shape, part.parameters + row.parameters,
        part.mmacs + row.mmacs,   part.kib + row.kib};
    if (n + 1 == graph.nodes || graph.node[n + 1].top != node.top) {
      text += part.text();
      part = {};
    }
  }
  for (int p = 0; p < graph.parameters; ++p) {
    GraphParameter const& own = graph.parameter[p];
    bool const counts = own.parameter.role == Role::weight && own.shared < 0;
    total.parameters += counts ? own.parameter.shape.elements() : 0;
  }
  return text + total.text() + shared_weights(graph);
}

}  // namespace tandem::detail

#endif
