// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// gradient_buckets: how the gradients of a worker of one device go while its backward pass goes
/// on.

#include <algorithm>
#include <cstddef>
#include <vector>

#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/strategy/batch/options.hpp>

namespace tandem::detail {

/// As many bytes at a time as strategies take unless told, from the last layer to the first.
template <class = void>  // compiled where it is called, not by every include
std::vector<GradientBucket> gradient_buckets(CostGraph const& graph) {
  constexpr auto full = static_cast<double>(Batching{}.bucket_bytes);
  std::vector<GradientBucket> buckets;
  double left = 0;  // of the backward pass, behind what was looked at
  for (CostNode const& node : graph.node) {
    left += node.backward;
  }
  double bytes = 0;
  for (std::size_t n = graph.node.size(); n-- > 0;) {
    left -= graph.node[n].backward;
    bytes += static_cast<double>(graph.node[n].parameter_bytes);
    if (bytes > 0 && (bytes >= full || n == 0)) {
      buckets.push_back({bytes, n == 0 ? 0 : std::max(0.0, left)});
      bytes = 0;
    }
  }
  return buckets;
}

}  // namespace tandem::detail
