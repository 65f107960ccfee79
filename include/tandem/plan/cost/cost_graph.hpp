// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CostGraph: a dataflow graph whose nodes have times and sizes, measured or computed: what
/// placement, partition and simulation read, without a network type.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

/// One operation of the forward pass together with its backward pass, for one minibatch on one
/// device.
struct CostNode {
  std::string name{};
  double forward = 0;             ///< seconds
  double backward = 0;            ///< seconds; of both gradients
  std::int64_t output_bytes = 0;  ///< of the tensor that leaves it, and of that tensor's gradient
  std::int64_t parameter_bytes = 0;  ///< of its weights
  int part = 0;                      ///< not descending; a chain is cut between parts only

  [[nodiscard]] double time() const { return forward + backward; }
};

/// A tensor that one node gives another.
struct CostEdge {
  int from = 0;
  int to = 0;

  friend bool operator==(CostEdge const&, CostEdge const&) = default;
};

/// Nodes in topological order: every edge leads from a lower index to a higher one.
struct CostGraph {
  std::vector<CostNode> node{};
  std::vector<CostEdge> edge{};

  [[nodiscard]] int nodes() const { return static_cast<int>(node.size()); }
  /// Seconds that one device takes for a step: the sum of all nodes.
  [[nodiscard]] double time() const {
    double sum = 0;
    for (CostNode const& n : node) {
      sum += n.time();
    }
    return sum;
  }
};

}  // namespace tandem
