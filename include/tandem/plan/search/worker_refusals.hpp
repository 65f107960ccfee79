// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// refusal_of: which workers the compiler would refuse to a network, so that none is recommended.

#include <algorithm>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/graph/chunks.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/runtime_graph.hpp>
#include <tandem/graph/spread/row_finder.hpp>
#include <tandem/plan/scale/sharding.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/strategy/rules.hpp>

namespace tandem::detail {

/// The network's sequences have so many rows; 0: it has none.
TANDEM_ONCE int rows_of_time(GraphView network);

/// Why Program has a sentence for @p worker where it trains @p network; else empty.
TANDEM_ONCE std::string refusal_of(GraphView network, WorkerStrategy const& worker);

/// Whether replicas of @p worker can have a part each of what @p shard says.
/// @param packs  parameters are read in another form than they are kept in, each op its own
TANDEM_ONCE bool can_shard(Sharding shard, GraphView network, WorkerStrategy const& worker,
                           bool packs);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE int rows_of_time(GraphView network) {
  int rows = 0;
  for (int n = 0; n < network.nodes; ++n) {
    Shape const& out = network.node[n].out;
    rows = out.timed ? std::max(rows, out[0]) : rows;
  }
  return rows;
}

TANDEM_ONCE std::string refusal_of_chunks(GraphView network, int chunks) {
  switch (check_chunks(RuntimeGraph{network}, chunks).fault) {
    case ChunkFault::none:
      return {};
    case ChunkFault::rows:
      return "chunks of time must divide a sequence";
    case ChunkFault::two_inputs:
      return "a network on two inputs has two times, so that there are no chunks of them";
    default:
      return "a layer looks at all rows of a sequence, so that these cannot come in chunks of time";
  }
}

TANDEM_ONCE std::string refusal_of(GraphView network, WorkerStrategy const& worker) {
  if (worker.slices > 1) {
    RuntimeGraph const graph{network};
    return has_row_gradients(network) ? "RowGradient is not for devices that share layers"
           : carries_states(network)  ? "Stateful is not for devices that share layers"
           : worker.sequence_rows && time_to_deal(graph, worker.slices) % worker.slices != 0
               ? "devices that have rows of a sequence each must divide it"
               : refusal_of_chunks(network, worker.time_chunks);
  }
  if (worker.time_chunks > 1) {
    return refusal_of_chunks(network, worker.time_chunks);
  }
  if (worker.post_validated) {
    return has_row_gradients(network) ? "RowGradient is not for updates that may be taken back"
           : carries_states(network)  ? "Stateful is not for updates that may be taken back"
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

TANDEM_ONCE bool can_shard(Sharding shard, GraphView network, WorkerStrategy const& worker,
                           bool packs) {
  bool const state = !worker.asynchrony().on() && !worker.keeps_two_copies() &&
                     !worker.post_validated && !worker.has_tiles() && !has_row_gradients(network);
  bool const gradients = state && !worker.sequence_rows && worker.time_chunks == 1;
  return shard == Sharding::none        ? true
         : shard == Sharding::state     ? state
         : shard == Sharding::gradients ? gradients
                                        : gradients && !packs;
}

}  // namespace tandem::detail

#endif
