// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How many replicas a strategy has that takes as many as the program is started with.

#include <cstdint>
#include <string>

#include <tandem/comm/world.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/strategy/batch/options.hpp>

namespace tandem {

namespace detail {

/// @param devices  of a replica
TANDEM_ONCE TANDEM_COLD int replicas_there(World const& world, int devices);

}  // namespace detail

/// The replicas of @p Program: those of its type, or as many as @p world has devices for, which are
/// World::devices of each process, and one where that is not said.
/// @throws ContractError  @p world contradicts itself, or its devices are no whole replicas
template <class Program>
int replicas_of(World const& world) {
  if constexpr (Program::any_replicas) {
    return detail::replicas_there(world, Program::devices * Program::slices);
  } else {
    return Program::batching.replicas;
  }
}

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

}  // namespace tandem::detail

#endif
