// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// add_ties: what weights that stages of a worker share (Shares<W>) do to its step.

#include <cstddef>
#include <cstdint>
#include <set>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/plan/search/worker_memory.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

/// The devices that hold a parameter of @p owner's values, in the first copy of the model.
TANDEM_ONCE std::set<int> holders_of(GraphView network, WorkerCut const& cut, int owner) {
  std::set<int> devices;
  for (int p = owner; p < network.parameters; ++p) {
    if (network.parameter[p].owner() == owner) {
      auto const part =
          static_cast<std::size_t>(cut.part[static_cast<std::size_t>(network.parameter[p].node)]);
      devices.insert(cut.map.device[part]);
    }
  }
  return devices;
}

/// Devices that share a weight add its gradients before the update, in each copy of the model. They
/// are taken to be as far apart as the first from the last, and those between to lie evenly.
/// @param master_bytes  of an element of a gradient
TANDEM_ONCE void add_ties(GraphView network, WorkerCut const& cut, Machine const& machine,
                          std::int64_t master_bytes, WorkerStep& step) {
  for (int p = 0; p < network.parameters; ++p) {
    if (network.parameter[p].shared >= 0 || network.parameter[p].frozen) {
      continue;
    }
    std::set<int> const devices = holders_of(network, cut, p);
    if (devices.size() < 2) {
      continue;
    }
    int const ranks = static_cast<int>(devices.size());
    DeviceGroup const group{ranks, (*devices.rbegin() - *devices.begin()) / (ranks - 1)};
    int const slices = cut.spread.dealing.wishes.has_table(p) ? cut.value.tensor : 1;
    auto const bytes = static_cast<double>(network.parameter[p].parameter.shape.elements()) *
                       static_cast<double>(master_bytes) / slices;
    step.ties += cut.map.copies * all_reduce_seconds(machine, group, bytes);
  }
}

}  // namespace tandem::detail

#endif
