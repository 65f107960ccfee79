// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// gradient_buckets: how the gradients of a worker of one device go while its backward pass goes
/// on.

#include <algorithm>
#include <cstddef>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/strategy/batch/options.hpp>

namespace tandem::detail {

/// As many bytes at a time as strategies take unless told, from the last layer to the first; a
/// layer with gradients by rows ends one.
/// @param graph         of a microbatch
/// @param microbatches  of a replica
TANDEM_ONCE std::vector<GradientBucket> gradient_buckets(CostGraph const& graph,
                                                         int microbatches = 1);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::vector<GradientBucket> gradient_buckets(CostGraph const& graph, int microbatches) {
  constexpr auto full = static_cast<double>(Batching{}.bucket_bytes);
  std::vector<GradientBucket> buckets;
  double left = 0;  // of the backward pass, behind what was looked at
  for (CostNode const& node : graph.node) {
    left += node.backward;
  }
  GradientBucket open;
  for (std::size_t n = graph.node.size(); n-- > 0;) {
    left -= graph.node[n].backward;
    open.bytes += graph.node[n].dense_bytes();
    open.row_bytes += graph.node[n].rows.bytes(microbatches);
    bool const any = open.bytes + open.row_bytes > 0;
    if (any && (open.bytes >= full || open.row_bytes > 0 || n == 0)) {
      open.before_end = n == 0 ? 0 : std::max(0.0, left);
      buckets.push_back(open);
      open = {};
    }
  }
  return buckets;
}

}  // namespace tandem::detail

#endif
