// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// world_from_environment(): the World that mpirun, mpiexec, srun or torchrun has started.
///
/// The only header beside launch that reads environment variables, all of them in one call. Without
/// a launcher the program is one process.

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include <tandem/comm/world.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/hash.hpp>
#include <tandem/core/printable.hpp>

namespace tandem {

namespace detail {

/// The value of an environment variable, or null.
using Lookup = char const* (*)(char const* name);

/// What a launcher calls a process's number, their count, and the number on its machine.
struct Launcher {
  char const* name;
  char const* rank;
  char const* size;
  char const* local_rank;
};

inline constexpr std::array<Launcher, 3> launchers{{
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI (MPICH, Intel MPI)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
}};

/// Reads one environment. Values that are no numbers, or only half there, are errors.
class EnvironmentReader {
 public:
  explicit EnvironmentReader(Lookup lookup) : lookup_{lookup} {}

  [[nodiscard]] std::string text(char const* name) const {
    char const* const value = lookup_(name);
    return value != nullptr ? value : "";
  }
  [[nodiscard]] bool has(char const* name) const { return !text(name).empty(); }

  /// -1 if it is not set.
  TANDEM_ONCE [[nodiscard]] int number(char const* name) const;

  /// Whether @p launcher has started this process, and if so, as which.
  TANDEM_ONCE [[nodiscard]] bool read(Launcher const& launcher, World& world) const;

  /// "RANK=3", or "no RANK"
  [[nodiscard]] std::string shown(char const* name) const {
    return has(name) ? name + ("=" + printable(text(name))) : "no " + std::string{name};
  }

 private:
  Lookup lookup_;
};

TANDEM_ONCE World world_from(Lookup lookup);

}  // namespace detail

/// The processes of this program, as its launcher has numbered them: Open MPI's or MPICH's mpirun,
/// Slurm's srun, torchrun, or one that sets RANK, WORLD_SIZE and LOCAL_RANK. Where they meet is
/// told by TANDEM_RENDEZVOUS ("host:port" or "file:PATH"), or by MASTER_ADDR and MASTER_PORT; on
/// one machine it need not be told. At a host and port they know each other by TANDEM_TOKEN, or by
/// a random text in TANDEM_TOKEN_FILE or else ~/.tandem-token, a file that all of them must see and
/// that is made if there is none.
/// @throws Error  the variables are malformed or contradict each other
TANDEM_ONCE World world_from_environment();

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Slurm's, which also leaves them to a program that srun has not started: then they mean nothing.
TANDEM_ONCE bool read_slurm(EnvironmentReader const& from, World& world) {
  bool const step = from.has("SLURM_STEP_ID") || from.has("SLURM_STEPID");
  if (!from.has("SLURM_PROCID") || (from.has("SLURM_JOB_ID") && !step)) {
    return false;
  }
  char const* const size =
      from.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  return from.read({"Slurm", "SLURM_PROCID", size, "SLURM_LOCALID"}, world);
}

/// What tells this start of the program from another and is the same for all its processes, or "".
TANDEM_ONCE std::string start_token(EnvironmentReader const& from) {
  for (char const* const name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
    if (from.has(name)) {
      return from.text(name);
    }
  }
  if (from.has("TORCHELASTIC_RUN_ID")) {
    return from.text("TORCHELASTIC_RUN_ID") + "." + from.text("TORCHELASTIC_RESTART_COUNT");
  }
  if (from.has("SLURM_JOB_ID")) {
    return from.text("SLURM_JOB_ID") + "." + from.text("SLURM_STEP_ID");
  }
  return {};
}

/// Adds what only this user's processes know. Launchers have no secret of their own: the number of
/// a job is known to all who can list jobs. Over files none is needed.
TANDEM_ONCE void add_secret(EnvironmentReader const& from, Rendezvous& rendezvous) {
  if (std::string const token = from.text("TANDEM_TOKEN"); !token.empty()) {
    if (token.size() < 16) {
      throw Error{
          "the environment's TANDEM_TOKEN has fewer than 16 characters, which can be guessed: set "
          "it "
          "to the same random text for all processes, as `openssl rand -hex 16` prints"};
    }
    rendezvous.token += " " + token;
  } else if (from.has("TANDEM_TOKEN_FILE")) {
    rendezvous.token_file = from.text("TANDEM_TOKEN_FILE");
  } else if (from.has("HOME")) {
    rendezvous.token_file = from.text("HOME") + "/.tandem-token";
  } else {
    throw Error{
        "the environment has no TANDEM_TOKEN, TANDEM_TOKEN_FILE or HOME, by which the processes "
        "could tell each other from strangers: set TANDEM_TOKEN to the same random text for all "
        "processes, as `openssl rand -hex 16` prints"};
  }
}

/// Whether the launcher says that all processes are on this machine.
TANDEM_ONCE bool on_one_machine(EnvironmentReader const& from, World const& world) {
  for (char const* const name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"}) {
    if (from.has(name)) {
      return from.number(name) == world.processes;
    }
  }
  return from.number("SLURM_STEP_NUM_NODES") == 1;
}

/// Files if the launcher says that there is one machine, since they need neither port nor secret.
TANDEM_ONCE std::string rendezvous_address(EnvironmentReader const& from, World const& world) {
  if (from.has("TANDEM_RENDEZVOUS")) {
    return from.text("TANDEM_RENDEZVOUS");
  }
  std::string const master = from.text("MASTER_ADDR") + ":" + from.text("MASTER_PORT");
  if (std::string const& token = world.rendezvous.token;
      !token.empty() && on_one_machine(from, world)) {
    return "file:/tmp/tandem-" + std::to_string(::getuid()) + "-" +
           std::to_string(hash_of(token + " " + master));
  }
  if (from.has("MASTER_ADDR") && from.has("MASTER_PORT")) {
    // torchrun itself listens at the port where it says that its agent has the store.
    int const port = from.number("MASTER_PORT");
    bool const taken = from.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    return from.text("MASTER_ADDR") + ":" + std::to_string(taken ? port + 1 : port);
  }
  return {};
}

TANDEM_ONCE World world_from(Lookup lookup) {
  EnvironmentReader const from{lookup};
  World world;
  Launcher const* found = nullptr;
  for (Launcher const& launcher : launchers) {
    World other;
    if (!from.read(launcher, other)) {
      continue;
    }
    if (found != nullptr &&
        (other.process != world.process || other.processes != world.processes)) {
      throw Error{"the environment names this process twice: " + from.shown(found->rank) + " of " +
                  from.shown(found->size) + " (" + found->name + "), but " +
                  from.shown(launcher.rank) + " of " + from.shown(launcher.size) + " (" +
                  launcher.name + "); unset the variables of one"};
    }
    if (found == nullptr) {
      found = &launcher;
      world = other;
    }
  }
  if (found == nullptr && !read_slurm(from, world)) {
    return {};
  }
  world.rendezvous.token = start_token(from);
  world.rendezvous.address = rendezvous_address(from, world);
  if (std::string const& at = world.rendezvous.address; !at.empty() && at.rfind("file:", 0) != 0) {
    add_secret(from, world.rendezvous);
  }
  check_world(world);
  return world;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE World world_from_environment() {
  return detail::world_from([](char const* name) -> char const* { return std::getenv(name); });
}

}  // namespace tandem

namespace tandem::detail {

TANDEM_ONCE int EnvironmentReader::number(char const* name) const {
  std::string const value = text(name);
  if (value.empty()) {
    return -1;
  }
  if (value.size() > 9 || value.find_first_not_of("0123456789") != std::string::npos) {
    throw Error{"the environment says " + shown(name) + ", which is no number of a process"};
  }
  return std::stoi(value);
}

TANDEM_ONCE bool EnvironmentReader::read(Launcher const& launcher, World& world) const {
  int const rank = number(launcher.rank);
  int const size = number(launcher.size);
  if (rank < 0 && size < 0) {
    return false;
  }
  if (rank < 0 || size < 0) {
    throw Error{"the environment is that of " + std::string{launcher.name} + " with " +
                shown(rank < 0 ? launcher.size : launcher.rank) + " but without " +
                (rank < 0 ? launcher.rank : launcher.size) + "; set both or none"};
  }
  int const local = number(launcher.local_rank);
  world.processes = size;
  world.process = rank;
  world.local_process = local < 0 ? rank : local;  // else all are taken to be on one machine
  if (rank >= size || world.local_process > rank) {
    throw Error{"the environment of " + std::string{launcher.name} +
                " contradicts itself: " + shown(launcher.rank) + ", " + shown(launcher.size) +
                ", " + shown(launcher.local_rank)};
  }
  return true;
}

}  // namespace tandem::detail

#endif
