// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CostGraph: a dataflow graph whose nodes have times and sizes, measured or computed: what
/// placement, partition and simulation read, without a network type.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>

namespace tandem {

/// Parameters whose gradients are of the rows that a step touches (RowGradient), as
/// core/gradient_rows.hpp has them: what one replica's take, numbers of rows included.
struct RowCosts {
  std::int64_t parameter_bytes = 0;  ///< of these parameters
  std::int64_t most_bytes = 0;       ///< of a gradient of all their rows
  std::int64_t step_bytes = 0;       ///< of rows that are drawn for the whole step
  std::int64_t minibatch_bytes = 0;  ///< of those that the minibatch names

  /// Bytes of a replica's gradients where it has so many of these minibatches.
  [[nodiscard]] double bytes(int minibatches = 1) const {
    return static_cast<double>(std::min(most_bytes, step_bytes + minibatches * minibatch_bytes));
  }
  RowCosts& operator+=(RowCosts const& other) {
    parameter_bytes += other.parameter_bytes;
    most_bytes += other.most_bytes;
    step_bytes += other.step_bytes;
    minibatch_bytes += other.minibatch_bytes;
    return *this;
  }
};

/// One operation of the forward pass together with its backward pass, for one minibatch on one
/// device.
struct CostNode {
  std::string name{};
  double forward = 0;             ///< seconds
  double backward = 0;            ///< seconds; of both gradients
  std::int64_t output_bytes = 0;  ///< of the tensor that leaves it, and of that tensor's gradient
  std::int64_t parameter_bytes = 0;  ///< of its weights
  int part = 0;                      ///< not descending; a chain is cut between parts only
  RowCosts rows{};                   ///< of some of its weights; none in most nodes

  [[nodiscard]] double time() const { return forward + backward; }
  /// Of gradients that replicas sum as they are.
  [[nodiscard]] double dense_bytes() const {
    return static_cast<double>(parameter_bytes - rows.parameter_bytes);
  }
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
  TANDEM_ONCE [[nodiscard]] double time() const;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE double CostGraph::time() const {
  double sum = 0;
  for (CostNode const& n : node) {
    sum += n.time();
  }
  return sum;
}

}  // namespace tandem

#endif
