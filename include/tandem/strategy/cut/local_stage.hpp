// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LocalStages: which nodes of a device's graph each of its stages has.

#include <cstddef>
#include <span>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem {

/// One of a device's stages: nodes [first, last) of its graph.
struct LocalStage {
  int id = 0;  ///< in the StageMap
  int first = 0;
  int last = 0;
  int copy = 0;                 ///< which of the model's copies it is part of
  int part = 0;                 ///< which part of the model it is
  bool needs_gradient = false;  ///< some node of it does, so that it goes backward
  bool has_input = false;       ///< it reads the network's input
  bool has_result = false;      ///< it gives the network's output

  friend constexpr bool operator==(LocalStage const&, LocalStage const&) = default;
};

/// The stages of a device, in the order of its graph.
template <int Count>
struct LocalStages {
  static constexpr int count = Count;
  LocalStage stage[static_cast<std::size_t>(Count)] = {};
};

/// The one of a device's stages that has this number in the StageMap, and which one that is.
constexpr LocalStage const& find_stage(std::span<LocalStage const> stages, int id) {
  LocalStage const* stage = stages.data();
  while (stage->id != id) {
    ++stage;
  }
  return *stage;
}
constexpr int local_stage(std::span<LocalStage const> stages, int id) {
  return static_cast<int>(&find_stage(stages, id) - stages.data());
}

/// Whether a device has two copies of a part of the model, as the one in the middle may.
constexpr bool has_twins(std::span<LocalStage const> stages) {
  bool has = false;
  for (std::size_t s = 1; s < stages.size(); ++s) {
    has = has || stages[s].part == stages[s - 1].part;
  }
  return has;
}

namespace detail {

constexpr int count_stages(GraphView graph) {
  int count = 1;
  for (int n = 1; n < graph.nodes; ++n) {
    count += graph.node[n].stage != graph.node[n - 1].stage ? 1 : 0;
  }
  return count;
}

// Whether node n is an input, or reads one: of another stage, where two of a device do.
constexpr bool reads_input(GraphView graph, int n) {
  Node const& node = graph.node[n];
  bool reads = node.kind == NodeKind::input;
  for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
    reads = reads || graph.node[graph.source[e]].kind == NodeKind::input;
  }
  return reads;
}

/// @param stages  new ones, count_stages() of them
constexpr void fill_stages(GraphView graph, int parts, LocalStage* stages) {
  int next = 0;
  for (int n = 0; n < graph.nodes; ++n) {
    int const id = graph.node[n].stage;
    if (n == 0 || id != graph.node[n - 1].stage) {
      stages[next++] = {.id = id, .first = n, .last = n, .copy = id / parts, .part = id % parts};
    }
    LocalStage& stage = stages[next - 1];
    stage.last = n + 1;
    stage.needs_gradient = stage.needs_gradient || graph.node[n].needs_gradient;
    stage.has_input = stage.has_input || reads_input(graph, n);
    stage.has_result = stage.has_result || n == graph.result;
  }
}

template <int Count>
constexpr LocalStages<Count> find_stages(GraphView graph, int parts) {
  LocalStages<Count> stages;
  fill_stages(graph, parts, stages.stage);
  return stages;
}

}  // namespace detail

}  // namespace tandem
