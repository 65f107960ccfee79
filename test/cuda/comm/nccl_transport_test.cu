// SPDX-License-Identifier: Apache-2.0
// NcclTransport and groups of several processes: who takes which GPU, how they meet and part.

#if defined(TANDEM_NCCL)

#include <tandem/comm/nccl/transport.hpp>

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/comm/reduction.hpp>
#include <tandem/comm/transport.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <support/temporary_folder.hpp>

#include "nccl_support.hpp"
#include "support.hpp"

namespace tandem::nccl_test {
namespace {

static_assert(RankTransport<NcclTransport<1>> && RankTransport<NcclTransport<4>>);

TEST_CASE("NCCL transport: which GPUs a process takes") {
  World world{.processes = 4, .process = 3, .local_process = 1};
  CHECK(detail::first_device(world, 2, 4) == 2);
  CHECK(detail::first_device(world, 2, 2) == 0);  // the launcher has dealt them
  CHECK(detail::first_device(world, 1, 1) == 0);
  std::string message;
  try {
    static_cast<void>(detail::first_device(world, 2, 3));
  } catch (Error const& error) {
    message = error.what();
  }
  CHECK(message ==
        "process 3 has 2 ranks and is number 1 on its machine, so there must be 4 GPUs, but it "
        "sees 3; use a strategy with fewer ranks, more machines, or look at CUDA_VISIBLE_DEVICES");
  message.clear();
  try {
    static_cast<void>(detail::first_device(World{}, 4, 1));
  } catch (Error const& error) {
    message = error.what();
  }
  CHECK(message ==
        "a strategy of 4 ranks needs 4 GPUs, but this process sees 1; use a strategy with fewer "
        "ranks, or look at CUDA_VISIBLE_DEVICES");
}

TEST_CASE("NCCL transport: one rank makes no call") {
  NcclTransport<1> one{TransportOptions{}};
  CHECK(one.communicator(0).size() == 1);
  CHECK(one.progress(0) == nullptr);
  CHECK_THROWS_AS(NcclTransport<1>{TransportOptions{.world = {.processes = 2}}}, ContractError);
}

TEST_CASE("NCCL transport: two processes meet and connect") {
  test::Watchdog const watchdog{"NCCL transport"};
  if (sizes(2).empty()) {
    return;
  }
  auto const folder =
      std::filesystem::temp_directory_path() / ("tandem-nccl-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  auto const errors = test::on_threads(2, [&](int process) {
    NcclTransport<2> transport{
        {.world = {.processes = 2,
                   .process = process,
                   .local_process = process,
                   .rendezvous = {.address = "file:" + (folder / "meet").string()}}}};
    CHECK(transport.first_rank() == process);
    CHECK(transport.local_ranks() == 1);
    CHECK(transport.device_of(0) == process);
    cuda::RankDevice device{cuda::Device{transport.device_of(0)}};
    auto comm = transport.communicator(process);
    test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
    data.fill();
    comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
    data.keep_and_spoil();
    CHECK(data.result() == std::vector<float>(3, 4.0F));
    transport.poll(process);
    CHECK(transport.progress(process) != nullptr);
  });
  CHECK(test::first_message(errors) == "");
  std::filesystem::remove_all(folder);
}

#if defined(TANDEM_CUDA_EMULATED)

TEST_CASE(
    "NCCL transport: a rank that fails in one process ends the waiting in all, and says why") {
  test::Watchdog const watchdog{"NCCL lifeline"};
  test::TemporaryFolder const folder;
  auto const errors = test::on_threads(2, [&](int process) {
    NcclTransport<4> transport{
        {.timeout = std::chrono::minutes{5},
         .world = {.processes = 2,
                   .process = process,
                   .local_process = process,
                   .rendezvous = {.address = "file:" + folder.file("meet")}}}};
    if (process == 1) {
      transport.abort(3, "no memory");
      transport.abort(2, "rank 3 has failed");
      return;
    }
    for (;;) {  // as one who waits for its GPU
      transport.poll(0);
      std::this_thread::yield();
    }
  });
  CHECK(test::message_of<AbortedError>(errors[0]) ==
        "rank 3 failed: on " + detail::machine_name() + ", process 1: no memory");
  CHECK(test::first_message({errors[1]}) == "");
}

TEST_CASE("NCCL transport: a process that ends while the others connect is not waited for") {
  test::Watchdog const watchdog{"NCCL connects to nobody"};
  test::TemporaryFolder const folder;
  std::size_t const open = cuda_emulator::live_nccl_communicators();
  auto const errors = test::on_threads(2, [&](int process) {
    TransportOptions const options{
        .timeout = std::chrono::minutes{5},
        .name = "replicas",
        .world = {.processes = 2,
                  .process = process,
                  .local_process = process,
                  .rendezvous = {.address = "file:" + folder.file("meet")}}};
    if (process == 0) {
      NcclTransport<4> const transport{options};
      return;
    }
    LifelineGuard<NcclGroup> lifeline{options.world, 2, options.timeout};
    static_cast<void>(make_unique_ids(options.world, 4, options.timeout));
    lifeline.report(3, "no memory");
  });
  CHECK(test::message_of<AbortedError>(errors[0]) ==
        "replicas: rank 3 failed: on " + detail::machine_name() + ", process 1: no memory");
  CHECK(test::first_message({errors[1]}) == "");
  CHECK(cuda_emulator::live_nccl_communicators() == open);
}

TEST_CASE("NCCL transport: a time-out names who is behind, in whichever process") {
  test::Watchdog const watchdog{"NCCL inquiry"};
  test::TemporaryFolder const folder;
  std::vector<std::unique_ptr<NcclTransport<4>>> transports(2);
  auto const made = test::on_threads(2, [&](int process) {
    transports[static_cast<std::size_t>(process)] =
        std::make_unique<NcclTransport<4>>(TransportOptions{
            .timeout = std::chrono::milliseconds{500},
            .describe_progress =
                [](int, std::uint64_t progress) { return "at action " + std::to_string(progress); },
            .world = {.processes = 2,
                      .process = process,
                      .local_process = process,
                      .rendezvous = {.address = "file:" + folder.file("meet")}},
            .groups = {{.ranks = {0, 2}, .name = "link"}}});
  });
  REQUIRE(test::first_message(made) == "");
  // 1 and 3 wait for 0, that for 2, which does nothing.
  auto const errors = test::on_threads(4, [&](int rank) {
    auto& transport = *transports[static_cast<std::size_t>(rank / 2)];
    cuda::RankDevice device{cuda::Device{rank}};
    test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
    data.fill();
    if (rank == 2) {
      transport.progress(2)->store(17);
    } else if (rank == 0) {
      auto comm = transport.communicator(0, 0);
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication, {"weights", 0});
    } else {
      auto comm = transport.communicator(rank);
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication, {"bucket", 1});
    }
    auto const begin = std::chrono::steady_clock::now();
    for (;;) {  // as one who waits for its GPU, but for rank 2
      transport.poll(rank, rank == 2 ? std::chrono::steady_clock::duration{}
                                     : std::chrono::steady_clock::now() - begin);
      std::this_thread::yield();
    }
  });
  std::string const text = test::first_message(errors);
  CHECK(text.find("rank 2 did not reach link: all-reduce #1 (weights 0)") == 0);
  CHECK(text.find("at action 17") != std::string::npos);
  for (auto const& error : errors) {
    CHECK(test::first_message({error}) == text);
  }
  static_cast<void>(test::on_threads(
      2, [&](int process) { transports[static_cast<std::size_t>(process)].reset(); }));
}

TEST_CASE("NCCL: several processes") {
  test::Watchdog const watchdog{"NCCL processes"};
  Tidy const tidy;
  test::check_all_reduce<float>(Run{2}, 4, test::Numbers::small, Sum{}, {1, 1000});
  test::check_messages<float>(Run{4}, 4);
}

TEST_CASE("NCCL: after finish() no call is possible, and nothing is aborted") {
  test::Watchdog const watchdog{"NCCL finish"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  Ranks all{2, {}, 2};
  auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
    comm.barrier(device.communication);
    all.wait(comm.rank());
    all.group(comm.rank()).finish();
    CHECK_THROWS_AS(comm.barrier(device.communication), ContractError);
  });
  CHECK(test::message_of<ContractError>(errors[0]).find("used after finish()") !=
        std::string::npos);
  CHECK(emu::aborted_nccl_communicators() == aborted);
}

#endif  // TANDEM_CUDA_EMULATED

}  // namespace
}  // namespace tandem::nccl_test

#endif  // TANDEM_NCCL
