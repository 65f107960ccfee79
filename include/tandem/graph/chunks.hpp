// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// in_chunks(): a graph whose sequences come in chunks of time; check_chunks(): whether they can.

#include <cstdint>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/layer.hpp>

namespace tandem {

/// Why a network's rows cannot come in chunks.
enum class ChunkFault : std::uint8_t { none, no_sequence, two_inputs, rows, criterion, layer };

struct ChunkVerdict {
  ChunkFault fault = ChunkFault::none;
  int node = 0;  ///< of a layer's fault
};

/// Whether each layer of a network's graph makes a row of that row and of earlier ones alone.
template <class G>
constexpr ChunkVerdict check_chunks(G const& graph, int chunks) {
  Shape const in = graph.node[0].out;
  if (chunks == 1 || graph.fault != Fault::none) {
    return {};
  }
  if (!in.timed) {
    return {ChunkFault::no_sequence};
  }
  if (graph.nodes > 1 && graph.node[1].kind == NodeKind::input) {
    return {ChunkFault::two_inputs};
  }
  for (int n = 1; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    if (!node.out.timed || (node.kind == NodeKind::layer && !node.sequence.in_chunks)) {
      return {ChunkFault::layer, n};
    }
  }
  return {!graph.node[graph.result].criterion ? ChunkFault::criterion
          : in[0] % chunks != 0               ? ChunkFault::rows
                                              : ChunkFault::none};
}

namespace detail {

constexpr std::int64_t chunk_part(std::int64_t all, int chunks) {
  return (all + chunks - 1) / chunks;
}

constexpr Shape chunk_shape(Shape shape, int chunks) {
  if (shape.timed) {
    shape.extent[0] /= chunks;
  }
  return shape;
}

/// What in_chunks() does, of a graph of any size.
template <class G>
constexpr void take_chunks(G& graph, int chunks) {
  for (int n = 0; n < graph.nodes; ++n) {
    Node& node = graph.node[n];
    node.in = detail::chunk_shape(node.in, chunks);
    node.out = detail::chunk_shape(node.out, chunks);
    node.macs = detail::chunk_part(node.macs, chunks);
    node.sequence.chunks = chunks;
    CarriedState const once = node.sequence.hands_on;  // kept of a chunk as of all rows
    node.kept.scalars = detail::chunk_part(node.kept.scalars - once.h, chunks) + once.h;
    node.kept.numbers = detail::chunk_part(node.kept.numbers - once.c, chunks) + once.c;
  }
  for (int p = 0; p < graph.parameters; ++p) {
    RowsTouched& touched = graph.parameter[p].parameter.touched;
    touched.of_sample = static_cast<int>(detail::chunk_part(touched.of_sample, chunks));
  }
}

}  // namespace detail

/// The graph of a device of which a pass has one of @p chunks chunks of each sequence: shapes,
/// costs and what is kept are of a chunk. Parameters are what they were.
/// @pre check_chunks() finds nothing
template <GraphSize Size>
constexpr Graph<Size> in_chunks(Graph<Size> graph, int chunks) {
  detail::take_chunks(graph, chunks);
  return graph;
}

}  // namespace tandem
