// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepOps: the passes of one training step of a dataflow graph, and which waits for which.

#include <cstddef>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/place/placement.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

/// Of V nodes: op i is the forward of node i, op 2 V - 1 - i its backward, so that an op waits only
/// for ops of lower index. Transfers are no ops, and devices play no part.
struct StepOps {
  Numbered<double> time{};
  Numbered<std::vector<int>> before{};  ///< the ops that each waits for itself
  Numbered<std::vector<int>> after{};

  explicit StepOps(CostGraph const& graph)
      : time(2 * graph.node.size()), before(time.size()), after(time.size()) {
    for (int i = 0; i < graph.nodes(); ++i) {
      CostNode const& node = graph.node[static_cast<std::size_t>(i)];
      time[i] = node.forward;
      time[backward(i)] = node.backward;
      connect(i, backward(i));
    }
    for (CostEdge const& edge : graph.edge) {
      connect(edge.from, edge.to);
      connect(backward(edge.to), backward(edge.from));
    }
  }

  [[nodiscard]] int ops() const { return static_cast<int>(time.size()); }
  [[nodiscard]] int backward(int node) const { return ops() - 1 - node; }
  [[nodiscard]] int node(int op) const { return op < ops() / 2 ? op : backward(op); }

 private:
  void connect(int from, int to) {
    before[to].push_back(from);
    after[from].push_back(to);
  }
};

/// Seconds that the output of a node, or its gradient, takes from one device to another.
inline double transfer_time(CostNode const& node, PlacementTask const& task) {
  return task.latency + static_cast<double>(node.output_bytes) / task.bandwidth;
}

/// [i][j]: 1 if op j waits for op i, directly or not. Cost: O(ops (nodes + edges)) steps.
TANDEM_ONCE Numbered<Numbered<char>> reached_ops(StepOps const& ops) {
  Numbered<Numbered<char>> reached(ops.time.size(), Numbered<char>(ops.time.size()));
  for (int i = ops.ops(); i-- > 0;) {
    for (int const next : ops.after[i]) {
      reached[i][next] = 1;
      for (int j = next + 1; j < ops.ops(); ++j) {
        reached[i][j] = reached[i][j] != 0 || reached[next][j] != 0;
      }
    }
  }
  return reached;
}

}  // namespace tandem::detail

#endif
