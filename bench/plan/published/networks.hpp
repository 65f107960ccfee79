// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the planner says of the published rows of networks that the library has as types.

#include <stdexcept>
#include <string>

#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/models/gnmt.hpp>
#include <tandem/models/resnet_imagenet.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/search/search.hpp>

#include "rows.hpp"

namespace published {

/// @throws std::runtime_error  there is none of that name
inline tandem::GraphView network_of(Row const& row) {
  using namespace tandem::models;
  if (row.text("net") == "resnet50") {
    return tandem::graph<ResNet50<1000>>;
  }
  if (row.text("net") == "gnmt") {
    return tandem::graph<Gnmt<32'000, 1024, 4>>;
  }
  throw std::runtime_error{"rows.txt: no network '" + row.text("net") + "'"};
}

/// Seconds of a step, data parallel: passes, and what the sum of gradients adds behind them.
inline double network_seconds(Row const& row) {
  tandem::Machine const machine = machine_of(row);
  int const devices = row.whole("devices");
  tandem::CostGraph const graph = tandem::static_costs(
      network_of(row), machine, tandem::MathPrecision::fp16, row.whole("batch") / devices);
  return graph.time() + tandem::detail::exposed_reduction(graph, machine, devices);
}

}  // namespace published
