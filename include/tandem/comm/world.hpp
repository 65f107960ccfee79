// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// World: the processes of one program, and which ranks live in each.
///
/// A plain value; train/ranks/world.hpp reads it from what mpirun, srun or torchrun leaves in the
/// environment, and a program may fill it in itself.

#include <cstddef>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

/// Where the processes of a world meet for the first time; see rendezvous() in
/// comm/rendezvous/rendezvous.hpp.
struct Rendezvous {
  /// "host:port", at which process 0 listens, or "file:PATH", where all processes may make files.
  std::string address{};

  /// Tells one start of the program from another, and its processes from strangers; agrees on all
  /// processes. A guessable one, such as the number of a job, keeps no stranger away.
  std::string token{};

  /// A file of this user's with a further part of the token; a random one is made if there is none.
  /// For processes that share a folder and nothing else that is secret. Over TCP only; may be
  /// empty.
  std::string token_file{};

  /// If not null it is used and no address is needed: makes process 0's @p bytes those of every
  /// process, as MPI_Bcast does.
  void (*broadcast)(void* context, void* data, std::size_t bytes) = nullptr;
  void* context = nullptr;
};

/// The processes of one program, this one among them. The ranks are dealt to them in order: with 8
/// ranks and 2 processes, ranks 4 to 7 live in process 1.
struct World {
  int processes = 1;
  int process = 0;

  /// This process among those on its machine: which of the machine's devices are its own.
  int local_process = 0;

  /// Ranks that each process has devices for, which an Elastic goes by (train/elastic/run.hpp).
  /// 0: one of several processes; else all CPUs that it may use, or all GPUs that it sees.
  int devices = 0;

  int machines = 0;  ///< that the processes are on; 0: not known

  Rendezvous rendezvous{};
};

/// @throws ContractError  the numbers of @p world contradict each other
TANDEM_ONCE void check_world(World const& world);

/// How many of @p ranks live in each process.
/// @throws ContractError  check_world() fails, or @p ranks is no multiple of the processes
TANDEM_ONCE int local_ranks(World const& world, int ranks);

/// The first rank that lives in this process. @throws ContractError  as local_ranks() does
TANDEM_ONCE int first_rank(World const& world, int ranks);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void check_world(World const& world) {
  auto const fail = [&world](std::string const& what) {
    throw ContractError{"World: " + what + " (process " + std::to_string(world.process) + " of " +
                        std::to_string(world.processes) + ", number " +
                        std::to_string(world.local_process) + " on its machine)"};
  };
  if (world.processes < 1) {
    fail("there must be at least one process");
  }
  if (world.process < 0 || world.process >= world.processes) {
    fail("the processes are numbered from 0 up");
  }
  if (world.local_process < 0 || world.local_process > world.process) {
    fail("a machine's processes are numbered from 0 up, in the order of all processes");
  }
}

TANDEM_ONCE int local_ranks(World const& world, int ranks) {
  check_world(world);
  if (ranks % world.processes != 0) {
    throw ContractError{"World: a strategy of " + std::to_string(ranks) +
                        " ranks cannot be dealt to " + std::to_string(world.processes) +
                        " processes: start as many as divide the ranks"};
  }
  return ranks / world.processes;
}

TANDEM_ONCE int first_rank(World const& world, int ranks) {
  return world.process * local_ranks(world, ranks);
}

}  // namespace tandem

#endif
