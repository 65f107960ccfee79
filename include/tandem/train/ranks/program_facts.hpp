// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ProgramFacts: what whoever drives a program's ranks knows of it, as values, so that it is
/// compiled once and not for each network and strategy.

#include <cstdint>
#include <span>

#include <tandem/core/mesh.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/strategy/batch/options.hpp>

namespace tandem {

/// A device's parameters as WholeParameters has them.
struct DeviceParameters {
  GraphView graph;
  std::int64_t const* offset = nullptr;
  std::int64_t elements = 0;
};

struct ProgramFacts {
  GraphView network;
  std::span<DeviceParameters const> devices{};  ///< of a replica
  int copies = 1;                               ///< of the model in a replica
  int parts = 1;                                ///< stages of each
  int result = 0;                               ///< the part that gives the network's output
  std::int16_t const* device = nullptr;         ///< of each part of each copy
  int steps_in_flight = 1;  ///< that may be queued before the result of the first is collected
  bool several_ranks = false;
  bool stateful = false;        ///< steps hand states on, sample by sample
  bool asynchronous = false;    ///< ranks do nothing together but train
  bool streams = false;         ///< the ranks run without a barrier between steps
  bool has_pieces = false;      ///< ranks have parts of states, gradients or parameters
  bool cuts_weights = false;    ///< of parameters, too
  bool two_models = false;      ///< that may differ, under names of their own
  bool passes_on = false;       ///< there may be several processes, and communicators send doubles
  bool captured_beside = true;  ///< they can be recorded while others of the process work

  /// The rank that has the result of a microbatch, counted over all replicas.
  [[nodiscard]] int rank_of_result(int microbatch, Batching const& batching,
                                   Mesh const& mesh) const {
    int const copy = batching.copy_of(microbatch, copies);
    return mesh.rank(
        {.data = batching.replica_of(microbatch), .model = device[copy * parts + result]});
  }
};

}  // namespace tandem
