// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// mpi_world(): the World of the processes that mpirun, mpiexec or srun has started with MPI.

#include <cstddef>
#include <string>
#include <vector>

#include <tandem/comm/mpi/session.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/config.hpp>

namespace tandem {

/// Begins MPI, once, and ends it with the process; all processes call it, at their beginning. Where
/// the program is started without a launcher this is one process, whose ranks are threads.
///
///   Trainer<Net, DataParallel<4>, OverMpi<Host>> trainer{{.world = mpi_world()}};
///
/// Cost: MPI's start, some 0.1 s a process on one machine.
/// @throws MpiError  MPI cannot be started, or not with threads
inline TANDEM_COLD World mpi_world(MpiOptions const& options = {}) {
  auto& session = detail::MpiSession::of_this_process();
  session.start(options);
  std::vector<std::string> const& machines = session.machines();
  World world{.processes = static_cast<int>(machines.size()), .process = session.process()};
  for (int p = 0; p < world.process; ++p) {
    world.local_process += machines[std::size_t(p)] == machines[std::size_t(world.process)] ? 1 : 0;
  }
  for (std::size_t p = 0; p < machines.size(); ++p) {
    std::size_t first = 0;
    while (machines[first] != machines[p]) {
      ++first;
    }
    world.machines += first == p ? 1 : 0;
  }
  return world;
}

}  // namespace tandem
