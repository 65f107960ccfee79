// SPDX-License-Identifier: Apache-2.0
// world_from_environment(): what each launcher leaves, and what is wrong with the rest.

#include <tandem/train/ranks/world.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace tandem {
namespace world_test {

std::map<std::string, std::string> environment;  // of the lookup, which cannot capture

World world(std::map<std::string, std::string> const& variables) {
  environment = variables;
  return detail::world_from([](char const* name) -> char const* {
    auto const found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

std::string message(std::map<std::string, std::string> const& variables) {
  try {
    static_cast<void>(world(variables));
  } catch (Error const& error) {
    return error.what();
  }
  return "(nothing)";
}

bool is(World const& w, int process, int processes, int local) {
  return w.process == process && w.processes == processes && w.local_process == local;
}

TEST_CASE("world: without a launcher there is one process") {
  World const alone = world({});
  CHECK(is(alone, 0, 1, 0));
  CHECK(alone.rendezvous.address.empty());
  CHECK(is(world({{"OMPI_COMM_WORLD_RANK", ""}, {"OMPI_COMM_WORLD_SIZE", ""}}), 0, 1, 0));
  CHECK(world_from_environment().processes >= 1);
}

TEST_CASE("world: the launchers' ways to say it") {
  CHECK(is(world({{"OMPI_COMM_WORLD_RANK", "5"},
                  {"OMPI_COMM_WORLD_SIZE", "8"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}),
           5, 8, 1));
  CHECK(is(world({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "0"}}), 3, 4, 0));
  CHECK(is(world({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}), 3, 4, 3));
  CHECK(is(world({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}}), 2, 4, 2));
  CHECK(is(world({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}}), 2, 4, 0));
  // The step's tasks count, not the job's; and a program that srun has not started is alone.
  std::map<std::string, std::string> slurm{
      {"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "0"}};
  CHECK(is(world(slurm), 0, 1, 0));
  slurm["SLURM_STEP_ID"] = "0";
  CHECK(is(world(slurm), 0, 8, 0));
  slurm["SLURM_STEP_NUM_TASKS"] = "2";
  CHECK(is(world(slurm), 0, 2, 0));
  // mpirun inside a Slurm job: Slurm's are those of mpirun's own helpers.
  slurm.insert({{"OMPI_COMM_WORLD_RANK", "1"},
                {"OMPI_COMM_WORLD_SIZE", "3"},
                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  CHECK(is(world(slurm), 1, 3, 1));
  // Two that agree.
  CHECK(is(world({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}}), 1, 2,
           1));
}

TEST_CASE("world: where the processes meet") {
  std::map<std::string, std::string> torch{{"RANK", "0"},
                                           {"WORLD_SIZE", "2"},
                                           {"LOCAL_RANK", "0"},
                                           {"MASTER_ADDR", "node7"},
                                           {"MASTER_PORT", "29500"},
                                           {"HOME", "/home/me"}};
  CHECK(world(torch).rendezvous.address == "node7:29500");
  torch["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  torch["TORCHELASTIC_RUN_ID"] = "run";
  torch["TORCHELASTIC_RESTART_COUNT"] = "1";
  CHECK(world(torch).rendezvous.address == "node7:29501");
  CHECK(world(torch).rendezvous.token == "run.1");
  torch["LOCAL_WORLD_SIZE"] = "1";
  CHECK(world(torch).rendezvous.address == "node7:29501");
  torch["LOCAL_WORLD_SIZE"] = "2";
  std::string const alone = world(torch).rendezvous.address;
  CHECK(alone.find("file:/tmp/tandem-") == 0);
  torch["MASTER_PORT"] = "29502";  // torchrun's run may have no name of its own
  CHECK(world(torch).rendezvous.address != alone);
  torch["TANDEM_RENDEZVOUS"] = "file:/shared/meet";
  CHECK(world(torch).rendezvous.address == "file:/shared/meet");

  std::map<std::string, std::string> mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                                         {"OMPI_COMM_WORLD_SIZE", "2"},
                                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                         {"PMIX_NAMESPACE", "prterun-1"}};
  std::string const here = world(mpi).rendezvous.address;
  CHECK(here.find("file:/tmp/tandem-") == 0);
  mpi["PMIX_NAMESPACE"] = "prterun-2";
  CHECK(world(mpi).rendezvous.address != here);
  mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  CHECK(world(mpi).rendezvous.address.empty());
  CHECK(world({{"SLURM_PROCID", "1"},
               {"SLURM_NTASKS", "2"},
               {"SLURM_JOB_ID", "9"},
               {"SLURM_STEP_ID", "3"},
               {"SLURM_STEP_NUM_NODES", "1"}})
            .rendezvous.token == "9.3");
}

TEST_CASE("world: by what the processes know each other") {
  std::map<std::string, std::string> at{{"RANK", "0"},
                                        {"WORLD_SIZE", "2"},
                                        {"SLURM_JOB_ID", "9"},
                                        {"SLURM_STEP_ID", "3"},
                                        {"TANDEM_RENDEZVOUS", "node7:1234"}};
  CHECK(message(at).find("the environment has no TANDEM_TOKEN, TANDEM_TOKEN_FILE or HOME") == 0);
  at["HOME"] = "/home/me";
  CHECK(world(at).rendezvous.token == "9.3");
  CHECK(world(at).rendezvous.token_file == "/home/me/.tandem-token");
  at["TANDEM_TOKEN_FILE"] = "/shared/token";
  CHECK(world(at).rendezvous.token_file == "/shared/token");
  at["TANDEM_TOKEN"] = "0123456789abcdef";
  CHECK(world(at).rendezvous.token == "9.3 0123456789abcdef");
  CHECK(world(at).rendezvous.token_file.empty());
  at["TANDEM_TOKEN"] = "0123456789abcde";
  CHECK(message(at).find("TANDEM_TOKEN has fewer than 16 characters") != std::string::npos);
  CHECK(message(at).find("0123456789") == std::string::npos);  // no secret in a log
  at["TANDEM_RENDEZVOUS"] = "file:/shared/meet";  // the file system knows whose files are whose
  CHECK(world(at).rendezvous.token == "9.3");
  CHECK(world(at).rendezvous.token_file.empty());
}

TEST_CASE("world: what is malformed or contradicts itself is a sentence") {
  CHECK(message({{"RANK", "one"}, {"WORLD_SIZE", "2"}}) ==
        "the environment says RANK=one, which is no number of a process");
  CHECK(message({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}) ==
        "the environment says RANK=-1, which is no number of a process");
  CHECK(message({{"RANK", "1"}, {"WORLD_SIZE", "99999999999"}}) ==
        "the environment says WORLD_SIZE=99999999999, which is no number of a process");
  CHECK(message({{"RANK", "\x1b[2J\n"}, {"WORLD_SIZE", "2"}}) ==
        "the environment says RANK=\\x1B[2J\\x0A, which is no number of a process");
  CHECK(message({{"RANK", "1"}}) ==
        "the environment is that of torchrun with RANK=1 but without WORLD_SIZE; set both or none");
  CHECK(message({{"OMPI_COMM_WORLD_SIZE", "2"}}) ==
        "the environment is that of Open MPI with OMPI_COMM_WORLD_SIZE=2 but without "
        "OMPI_COMM_WORLD_RANK; set both or none");
  CHECK(message({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}) ==
        "the environment of PMI (MPICH, Intel MPI) contradicts itself: PMI_RANK=2, PMI_SIZE=2, no "
        "MPI_LOCALRANKID");
  CHECK(message({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}}) ==
        "the environment of torchrun contradicts itself: RANK=1, WORLD_SIZE=4, LOCAL_RANK=2");
  CHECK(message({{"OMPI_COMM_WORLD_RANK", "1"},
                 {"OMPI_COMM_WORLD_SIZE", "2"},
                 {"RANK", "0"},
                 {"WORLD_SIZE", "2"}}) ==
        "the environment names this process twice: OMPI_COMM_WORLD_RANK=1 of "
        "OMPI_COMM_WORLD_SIZE=2 (Open MPI), but RANK=0 of WORLD_SIZE=2 (torchrun); unset the "
        "variables of one");
}

}  // namespace world_test
}  // namespace tandem
