// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PlacementTask and GraphPlacement: which device runs which node of a dataflow graph, so that a
/// step ends as early as it can. Source: the "DLPlacer" problem of Pal et al. 2019,
/// docs/planner.md.
///
/// A node's forward and backward run on one device; its weights lie there. A device runs one
/// operation at a time. Between each two devices there is a link for each direction, which carries
/// one tensor at a time. A tensor that several nodes of another device read is sent there once, and
/// the gradient that comes back is sent once, when the last of these nodes has gone backward.
/// Backward of a node begins when its own forward and the backwards of all its readers have ended,
/// and their gradients are there.

#include <cstdint>
#include <vector>

#include <tandem/plan/cost/cost_graph.hpp>

namespace tandem {

/// On what a graph is placed.
struct PlacementTask {
  int devices = 2;
  double bandwidth = 25e9;        ///< of a link and direction, bytes a second
  double latency = 0;             ///< of a transfer, seconds
  std::int64_t memory = -1;       ///< of a device, bytes, for outputs and weights; -1: as needed
  double bytes_of_parameter = 3;  ///< a device holds that many bytes for each of parameter_bytes:
                                  ///< weights, gradients, momentum; 4 for Adam
};

/// The device of each node, and what a step then takes.
struct GraphPlacement {
  std::vector<int> device{};
  double step = 0;         ///< seconds from the first forward to the last backward
  double lower_bound = 0;  ///< seconds that no placement of this task goes below

  /// Times faster than one device.
  [[nodiscard]] double speedup(CostGraph const& graph) const {
    return step > 0 ? graph.time() / step : 1;
  }
};

}  // namespace tandem
