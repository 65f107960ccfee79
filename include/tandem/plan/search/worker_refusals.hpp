// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// refusal_of: which workers the compiler would refuse to a network, so that none is recommended.

#include <string>

#include <tandem/graph/graph_view.hpp>
#include <tandem/plan/search/worker.hpp>

namespace tandem::detail {

/// Whether some trained parameter's gradients are GradientRows.
template <class = void>  // compiled where it is called, not by every include
bool has_row_gradients(GraphView network) {
  for (int p = 0; p < network.parameters; ++p) {
    if (network.parameter[p].parameter.touched.sparse() && !network.parameter[p].frozen) {
      return true;
    }
  }
  return false;
}

/// Whether some layer is Stateful.
template <class = void>
bool carries_states(GraphView network) {
  for (int n = 0; n < network.nodes; ++n) {
    if (network.node[n].carried.any()) {
      return true;
    }
  }
  return false;
}

/// Why Program has a sentence for @p worker where it trains @p network; else empty.
template <class = void>
std::string refusal_of(GraphView network, WorkerStrategy const& worker) {
  if (worker.is_tensor()) {
    return has_row_gradients(network) ? "RowGradient is not for devices that share layers"
           : carries_states(network)  ? "Stateful is not for devices that share layers"
                                      : "";
  }
  bool const late = worker.asynchrony().on();
  if (late || worker.keeps_two_copies()) {
    if (has_row_gradients(network)) {
      return late ? "RowGradient is not for stages that update at different times"
                  : "RowGradient is not for devices that have parts of two copies";
    }
    if (late && carries_states(network)) {
      return "Stateful is not for stages that update at different times";
    }
  }
  return {};
}

/// Whether replicas of @p worker can have a part of the optimizer's state each (ShardedState).
template <class = void>
bool can_shard_state(GraphView network, WorkerStrategy const& worker) {
  return !worker.asynchrony().on() && !worker.keeps_two_copies() && !has_row_gradients(network);
}

}  // namespace tandem::detail
