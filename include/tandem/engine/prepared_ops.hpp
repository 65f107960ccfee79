// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PreparedOps: all that a rank computes with, and the memory that it wants.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <tandem/engine/memory_plan.hpp>
#include <tandem/engine/op_table.hpp>

namespace tandem {

/// The ops of all nodes, of the loss and of the metric, for microbatches of one largest size.
template <class Program, class Backend, class LossType, class MetricType>
class PreparedOps {
 public:
  static constexpr auto const& graph = Program::graph;

  PreparedOps(int largest_microbatch, int threads, typename Backend::Device& device)
      : loss{graph.output().out, largest_microbatch},
        metric{graph.output().out},
        nodes_{largest_microbatch, threads, device},
        needs_{nodes_.needs()},
        largest_microbatch_{largest_microbatch} {}

  template <int I>
  [[nodiscard]] auto& get() {
    return nodes_.template get<I>();
  }

  /// What the op of each node asked for.
  [[nodiscard]] std::vector<OpNeeds> const& needs() const { return needs_; }

  /// Where activations and their gradients stand.
  [[nodiscard]] MemoryPlan plan() const {
    return MemoryPlanner{graph, needs_, largest_microbatch_,
                         static_cast<std::int64_t>(sizeof(typename Backend::Scalar))}
        .plan();
  }

  /// What the greediest pass wants.
  [[nodiscard]] std::int64_t scratch_bytes() const {
    std::int64_t most = loss.scratch_bytes();
    if constexpr (requires { metric.scratch_bytes(largest_microbatch_); }) {
      most = std::max(most, metric.scratch_bytes(largest_microbatch_));
    }
    for (OpNeeds const& need : needs_) {
      most = std::max(most, need.scratch_bytes);
    }
    return most;
  }

  LossOp<LossType, Backend> loss;
  MetricOp<MetricType, LossType, Backend> metric;

 private:
  OpTable<Program, Backend> nodes_;
  std::vector<OpNeeds> needs_;
  int largest_microbatch_;
};

}  // namespace tandem
