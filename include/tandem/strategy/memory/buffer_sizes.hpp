// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BufferSizes: bytes of the buffers of a graph's nodes, for one size of microbatch.

#include <cstdint>

#include <tandem/graph/graph_view.hpp>

namespace tandem::detail {

/// Buffers begin on lines of the cache.
constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Sizes of the buffers of a graph's nodes.
struct BufferSizes {
  GraphView graph;
  std::int64_t batch;
  std::int64_t element_bytes;

  [[nodiscard]] constexpr std::int64_t bytes(int node) const {
    return aligned(graph.node[node].out.elements() * batch * element_bytes);
  }
  // Of a root, which may be wider than what it is named after.
  [[nodiscard]] constexpr std::int64_t stored_bytes(int node) const {
    Node const& n = graph.node[node];
    std::int64_t const wider = n.fusion.width > 0 ? n.fusion.width : 1;
    std::int64_t const own = n.fusion.width > 0 ? n.out[0] : 1;
    return aligned(n.out.elements() / own * wider * batch * element_bytes);
  }
};

}  // namespace tandem::detail
