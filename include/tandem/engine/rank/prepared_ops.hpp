// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PreparedOps: all that a rank computes with, and the memory that it wants.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <tandem/engine/rank/op_table.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/ops/metrics.hpp>

namespace tandem {

/// The ops of all nodes, of the loss and of the metric, for microbatches of one largest size.
template <class Program, class Backend, class LossType, class MetricType>
class PreparedOps {
 public:
  static constexpr Shape output = Program::Program::network.output().out;

  /// @param slice  of layers that several ranks share, the rank's
  PreparedOps(int largest_microbatch, int threads, Slice slice, typename Backend::Device& device)
      : loss{output, largest_microbatch},
        metric{output},
        nodes_{largest_microbatch, threads, slice, device},
        needs_{nodes_.needs()},
        largest_microbatch_{largest_microbatch} {}

  /// Of node @p n, as OpTable.
  template <int I>
  [[nodiscard]] auto& get(int n) {
    return nodes_.template get<I>(n);
  }

  /// What the op of each node asked for.
  [[nodiscard]] std::vector<OpNeeds> const& needs() const { return needs_; }

  /// What the greediest pass wants.
  [[nodiscard]] std::int64_t scratch_bytes() const {
    std::int64_t most = Program::has_result ? loss.scratch_bytes() : 0;
    if constexpr (requires { metric.scratch_bytes(largest_microbatch_); }) {
      most = std::max(most, metric.scratch_bytes(largest_microbatch_));
    }
    for (OpNeeds const& need : needs_) {
      most = std::max(most, need.scratch_bytes);
    }
    return most;
  }

  /// Room for gradients that wait: for all, up to a size at which nothing more is won.
  [[nodiscard]] std::int64_t staged_bytes() const {
    constexpr std::int64_t enough = std::int64_t{32} << 20;
    std::int64_t most = 0;
    std::int64_t all = 0;
    for (OpNeeds const& need : needs_) {
      most = std::max(most, need.staged_bytes);
      all += need.staged_bytes;
    }
    return std::max(most, std::min(all, enough));
  }

  LossOp<LossType, Backend> loss;
  MetricOpsOf<MetricType, LossType, Backend> metric;

 private:
  OpTable<Program, Backend> nodes_;
  std::vector<OpNeeds> needs_;
  int largest_microbatch_;
};

}  // namespace tandem
