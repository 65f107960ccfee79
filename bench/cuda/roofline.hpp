// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The least time of a training step, from a graph's operations and bytes: what a bench divides by.
///
/// Each node takes what its operations or its bytes take at the device's peak, whichever is longer,
/// and nothing overlaps. Bytes are what must move if every op reads its inputs and writes its
/// outputs once: statistics of a batch norm are a second reading, a ReLU behind it is free, and so
/// is a concatenation.

#include <algorithm>
#include <cstdint>

#include <tandem/graph/graph.hpp>

namespace tandem::bench {

/// Of a device: floating-point operations and bytes a second.
struct Peak {
  double flops = 0.0;
  double bytes = 0.0;
};

/// Of one training step.
struct Work {
  double flops = 0.0;
  double bytes = 0.0;
  double seconds = 0.0;  ///< at the peak
};

/// Elements that a node's passes move for one sample: forward, then backward.
template <GraphSize Size>
constexpr std::int64_t moved_elements(Graph<Size> const& graph, int n) {
  Node const& node = graph.node[n];
  std::int64_t const in = node.in.elements();
  std::int64_t const out = node.out.elements();
  if (node.view || node.kind == NodeKind::concat || node.kind == NodeKind::input) {
    return 0;
  }
  if (node.layer == LayerKind::batch_norm) {
    return 2 * in + out + 2 * (in + out) + in;  // x twice, y; x and dy twice, dx
  }
  std::int64_t const pass = in + out;
  std::int64_t const weight_gradient = node.parameters > 0 ? pass : 0;
  return pass + weight_gradient + (gives_input_gradient(graph, n) ? pass : 0);
}

/// @param scalar  bytes of an activation
template <GraphSize Size>
constexpr Work step_work(Graph<Size> const& graph, std::int64_t batch, int scalar, Peak peak) {
  Work work;
  for (int n = 1; n < Size.nodes; ++n) {
    int const passes = gives_input_gradient(graph, n) ? 3 : 2;
    double const flops = 2.0 * passes * static_cast<double>(graph.node[n].macs * batch);
    double const bytes = static_cast<double>(moved_elements(graph, n) * batch * scalar);
    work.flops += flops;
    work.bytes += bytes;
    work.seconds += std::max(flops / peak.flops, bytes / peak.bytes);
  }
  // Update with momentum: reads parameter, gradient and velocity; writes the first and the last.
  double const update = 5.0 * 4.0 * static_cast<double>(graph.parameter_elements());
  work.bytes += update;
  work.seconds += update / peak.bytes;
  return work;
}

}  // namespace tandem::bench
