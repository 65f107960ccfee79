// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How many replicas a strategy has that takes as many as the program is started with, and what
/// each of them does.

#include <cstdint>
#include <string>

#include <tandem/comm/world.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/train/ranks/imported_table.hpp>

namespace tandem {

namespace detail {

/// As many replicas as @p world has devices for, which are World::devices of each process, and one
/// where that is not said.
/// @param devices  of a replica
/// @throws ContractError  @p world contradicts itself, or its devices are no whole replicas
TANDEM_ONCE TANDEM_COLD int replicas_there(World const& world, int devices);

/// @p table, or where there are @p all microbatches (not 0) that of each replica's share of them.
/// @throws ContractError  the microbatches or leaves cannot be dealt to the replicas
TANDEM_ONCE TANDEM_COLD ImportedTable share_table(ImportedTable table, DeviceTables const& device,
                                                  int all, int replicas);

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE int replicas_there(World const& world, int devices) {
  check_world(world);
  expects(world.devices >= 0, "World: devices must be 0 (one of each process) or more");
  std::int64_t const each = world.devices > 0 ? world.devices : 1;
  std::int64_t const all = each * world.processes;
  if (all % devices != 0) {
    throw ContractError{"DataParallel<>: " + std::to_string(all) + " devices are there, " +
                        std::to_string(world.processes) + " x " + std::to_string(each) +
                        " (processes x devices of each), which are no whole replicas of " +
                        std::to_string(devices) +
                        "; start more or fewer processes, or say that each has more devices "
                        "(.world.devices)"};
  }
  expects(all / devices <= most_replicas,
          "DataParallel<>: the replicas must be from 1 to 1048576; start fewer processes");
  return static_cast<int>(all / devices);
}

TANDEM_ONCE ImportedTable share_table(ImportedTable table, DeviceTables const& device, int all,
                                      int replicas) {
  expects(all == 0 || table.rows.empty(),
          "TrainerOptions: .rows are of so many microbatches; leave .microbatches out");
  if (all % replicas != 0) {
    throw ContractError{"DataParallel<>: the batch is cut into " + std::to_string(all) +
                        " microbatches, which cannot be dealt to " + std::to_string(replicas) +
                        " replicas; start as many as divide them, or give another number "
                        "(TrainerOptions::microbatches)"};
  }
  if (all > 0) {  // what each replica does, one after another
    table = {.rows = ActionRows(1), .microbatches = all / replicas};
  }
  for (int m = 0; m < all / replicas; ++m) {
    table.rows[0].push_back({.kind = ActionKind::forward, .index = m});
    table.rows[0].push_back({.kind = ActionKind::backward, .index = m});
  }
  Batching const batching = batching_with(device, table.microbatches, replicas);
  int const copies = device.map.copies;
  bool const fit = !batching.reproducible ||
                   (batching.microbatches % copies == 0 && batching.leaves % copies == 0 &&
                    leaves_fit({.microbatches = batching.microbatches / copies,
                                .leaves = batching.leaves / copies}));
  if (!fit) {
    int const leaves =
        batching.all_leaves > 0 ? batching.all_leaves : batching.leaves * batching.replicas;
    throw ContractError{"DataParallel<>: Reproducible<> adds " + std::to_string(leaves) +
                        " leaves, of which each of " + std::to_string(batching.replicas) +
                        " replicas must have a power of two that divides its microbatches, " +
                        std::to_string(batching.microbatches) +
                        (copies > 1 ? " in two copies of the model" : "") +
                        "; start another number of them, or write other leaves or microbatches"};
  }
  return table;
}

}  // namespace tandem::detail

#endif
