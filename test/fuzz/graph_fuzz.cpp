// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of PipeDream's graphs. What is accepted is topological and finite; if it is
// small, it is placed and cut, and reported as JSON.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tandem/core/error.hpp>
#include <tandem/plan/cost/chain_partition.hpp>
#include <tandem/plan/cost/chain_stages.hpp>
#include <tandem/plan/cost/pipedream_graph.hpp>
#include <tandem/plan/place/place.hpp>
#include <tandem/plan/place/report.hpp>

#include "require.hpp"

namespace {

using fuzz::require;

void place(tandem::CostGraph const& graph) {
  tandem::PlacementTask const task{.devices = 3, .bandwidth = 1e9};
  auto const placement = tandem::place_graph(graph, task, {.moves = 20});
  require(std::isfinite(placement.step) && placement.step <= graph.time() * (1 + 1e-9));
  require(placement.lower_bound <= placement.step);
  fuzz::require_json(tandem::placement_json(graph, task, placement));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  tandem::CostGraph graph;
  try {
    graph = tandem::parse_pipedream_graph(fuzz::text_of(data, size), "input");
  } catch (tandem::FileError const& error) {  // any other exception is a finding
    require(error.path() == "input");
    fuzz::require_sentence(error.what());
    return 0;
  }
  require(graph.nodes() > 0 && std::isfinite(graph.time()));
  for (tandem::CostEdge const& edge : graph.edge) {
    require(0 <= edge.from && edge.from < edge.to && edge.to < graph.nodes());
  }
  if (graph.nodes() <= 7) {
    place(graph);
  }
  int const parts = graph.nodes() < 4 ? graph.nodes() : 4;
  auto const cut = tandem::partition_chain(tandem::detail::part_times(graph), parts);
  require(tandem::detail::chain_stages(graph, cut.sizes).size() == static_cast<std::size_t>(parts));
  return 0;
}
