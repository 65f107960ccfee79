// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// spread_volume: what the ranks that share layers add up, and bring together, in the passes of one
/// sample.

#include <cstdint>

#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/spread/spread.hpp>

namespace tandem {

/// Elements of all-reduces, and how many these are; and of all-gathers.
struct SpreadVolume {
  int reduces = 0;
  int copies = 0;
  int gathers = 0;
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t gathered = 0;  ///< doubles that a rank has afterwards, in forward
};

/// Of one node, whose gradient nobody adds up where nobody wants one.
constexpr SpreadVolume spread_volume(Node const& node) {
  if (node.kind == NodeKind::reduce) {
    return {.reduces = 1, .forward = node.out.elements()};
  }
  if (node.dealt == Dealt::vocabulary) {  // four of each row
    return {.gathers = 1, .gathered = std::int64_t{4} * node.in[0] * node.slices};
  }
  if (node.kind == NodeKind::copy && node.needs_gradient) {
    return {.copies = 1, .backward = node.out.elements()};
  }
  return {};
}

/// Of a rank's whole graph.
constexpr SpreadVolume spread_volume(GraphView graph) {
  SpreadVolume all;
  for (int n = 0; n < graph.nodes; ++n) {
    SpreadVolume const own = spread_volume(graph.node[n]);
    all.reduces += own.reduces;
    all.copies += own.copies;
    all.forward += own.forward;
    all.backward += own.backward;
    all.gathers += own.gathers;
    all.gathered += own.gathered;
  }
  return all;
}

}  // namespace tandem
