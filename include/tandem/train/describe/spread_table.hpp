// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The part of a description that says how layers are dealt out over devices, and what these add
/// up and bring together.

#include <cstdint>
#include <cstdio>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/spread/spread.hpp>
#include <tandem/graph/spread/volume.hpp>

namespace tandem::detail {

/// "12.5", or "-" of nothing.
TANDEM_ONCE std::string kib_or_dash(std::int64_t bytes);

/// A row for each node of a rank's graph: how the value that it gives and the gradient of it are
/// dealt out, and what a sample's passes add up over the devices there, or bring together.
/// @param graph   before a backend rewrites it
/// @param slices  of all devices together
TANDEM_ONCE std::string spread_table(GraphView graph, int devices, int slices,
                                     std::int64_t element_bytes);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string kib_or_dash(std::int64_t bytes) {
  char text[32] = "-";
  if (bytes > 0) {
    std::snprintf(text, sizeof text, "%.1f", static_cast<double>(bytes) / 1024);
  }
  return text;
}

TANDEM_ONCE std::string spread_table(GraphView graph, int devices, int slices,
                                     std::int64_t element_bytes) {
  SpreadVolume const all = spread_volume(graph);
  bool const tiles = all.exchanges > 0;
  std::string text =
      "\nspreads over " + std::to_string(devices) + " devices" +
      (slices > devices ? " in " + std::to_string(slices) + " slices" : "") + ", and KiB that " +
      (tiles ? "each gets (exchange)" : "they add up (all-reduce) or, where losses are made") +
      (all.row_gathers > 0 ? " or rows exchanged" : "") +
      (tiles ? "" : ", bring together (all-gather)") + " for one sample\n";
  auto const add = [&](std::string const& path, std::string const& kind, std::string const& shape,
                       std::string const& value, std::string const& gradient,
                       SpreadVolume const& volume) {
    char line[256];
    std::snprintf(line, sizeof line, "%-18.60s %-14.40s %12.40s %-9.12s %-9.12s %9.20s %9.20s\n",
                  path.c_str(), kind.c_str(), shape.c_str(), value.c_str(), gradient.c_str(),
                  kib_or_dash(volume.forward * element_bytes + volume.gathered * 8).c_str(),
                  kib_or_dash(volume.backward * element_bytes).c_str());
    text += line;
  };
  char heads[256];
  std::snprintf(heads, sizeof heads, "%-18s %-14s %12s %-9s %-9s %9s %9s\n", "layer", "kind",
                "a device's", "value", "gradient", "forward", "backward");
  text += heads;
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    if (node.kind != NodeKind::input) {
      SpreadPair const pair = spread_rule(node.dealt).out;
      add(to_string(node.path), std::string{node.name}, to_string(node.out), name(pair.value),
          name(pair.gradient), spread_volume(node));
    }
  }
  std::string const gathers = all.gathers > 0 ? ", 1 all-gather" : "";
  std::string const total =
      tiles ? std::to_string(all.exchanges) + " exchanges"
            : std::to_string(all.reduces + all.copies) + " all-reduces" + gathers;
  add("total", total, "", "", "", all);
  if (all.row_gathers > 0) {
    text += "among these of rows, all-gathers: " + std::to_string(all.row_gathers) +
            ", reduce-scatters: " + std::to_string(all.row_scatters) +
            "; once a step gradients of rows, all-reduce: " +
            kib_or_dash(partial_gradients(graph) * element_bytes) + " KiB\n";
  }
  return text;
}

}  // namespace tandem::detail

#endif
