// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CheckpointRule: which activations are computed again in the backward pass instead of being kept.

#include <cstddef>
#include <cstdint>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem {

/// Keeps what enters each run of `every` top-level layers of a stage, or of the whole stage.
struct CheckpointRule {
  static constexpr int none = 0;
  static constexpr int boundaries = -1;
  int every = none;

  friend constexpr bool operator==(CheckpointRule const&, CheckpointRule const&) = default;
};

/// Of each node: the number of its run, ascending; -1 where all is kept.
template <int Nodes>
struct CheckpointSegments {
  int of[static_cast<std::size_t>(Nodes)] = {};
};

namespace detail {

/// @param of  of each node, to be filled
constexpr void fill_checkpoint_segments(GraphView graph, CheckpointRule rule, int* of) {
  int segment = 0;
  int first_top = -1;  // of the run at work
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    bool const new_stage = n > 0 && node.stage != graph.node[n - 1].stage;
    bool const full =
        rule.every > 0 && first_top >= 0 && !node.is_end() && node.top - first_top >= rule.every;
    if (new_stage || full) {
      ++segment;
      first_top = -1;
    }
    if (first_top < 0 && !node.is_end()) {  // a tensor from elsewhere has a top from elsewhere
      first_top = node.top;
    }
    of[n] = rule.every == CheckpointRule::none ? -1 : segment;
  }
}

}  // namespace detail

template <GraphSize Size>
constexpr CheckpointSegments<Size.nodes> checkpoint_segments(Graph<Size> const& graph,
                                                             CheckpointRule rule) {
  CheckpointSegments<Size.nodes> segments;
  detail::fill_checkpoint_segments(graph, rule, segments.of);
  return segments;
}

}  // namespace tandem
