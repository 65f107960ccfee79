// SPDX-License-Identifier: Apache-2.0
// NcclTransport with groups of some of its ranks: split in order, used at once, failing together.

#if defined(TANDEM_NCCL)

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/comm/nccl/transport.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/runtime/cuda/graph.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include "nccl_support.hpp"
#include "support.hpp"

namespace tandem::nccl_test {
namespace {

using test::message_of;

/// Two stages of two replicas each, and links between the first ranks of both.
enum Group : int { stage_0, stage_1, forward, backward };
TransportOptions two_stages(int ms = 600000) {
  return {.timeout = std::chrono::milliseconds{ms},
          .describe_progress =
              [](int rank, std::uint64_t progress) {
                return "rank " + std::to_string(rank) + " is at action " + std::to_string(progress);
              },
          .name = "trainer",
          .groups = {{{0, 2}, "stage 0"},
                     {{3, 1}, "stage 1"},
                     {{0, 1}, "boundary 0-1, forward", true},
                     {{1, 0}, "boundary 1-0, backward", true}}};
}

/// What is queued on @p stream comes before what the device's communication stream does next.
void join(cuda::RankDevice& device, cuda::Stream& stream) {
  cuda::Event end{device.device};
  stream.record(end);
  device.communication.wait_for(end);
}

TEST_CASE("NCCL groups: collectives in two groups and messages both ways, beside all ranks") {
  test::Watchdog const watchdog{"NCCL groups"};
  if (sizes(4).empty()) {
    return;
  }
  Ranks all{4, two_stages()};
  CHECK(test::first_message(all.errors()) == "");
  auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
    int const rank = comm.rank();
    auto stage = all.group(rank).communicator(rank, rank % 2 == 0 ? stage_0 : stage_1);
    CHECK(stage.size() == 2);
    CHECK(stage.rank() == (rank == 0 || rank == 3 ? 0 : 1));
    test::Fleeting<float> world{device, std::vector<float>(99, static_cast<float>(1 << rank))};
    test::Fleeting<float> own{device, std::vector<float>(7, static_cast<float>(1 << rank))};
    test::Fleeting<float> out{device, std::vector<float>(5, static_cast<float>(10 + rank))};
    test::Fleeting<float> in{device, std::vector<float>(5)};
    cuda::Stream links[] = {cuda::Stream{device.device}, cuda::Stream{device.device}};
    for (int i = 0; i < 20; ++i) {
      world.fill();
      own.fill();
      out.fill();
      in.fill();
      all.wait(rank);
      comm.all_reduce(world.span(), world.span(), Sum{}, device.communication);
      stage.all_reduce(own.span(), own.span(), Sum{}, device.compute);
      for (int const group : {forward, backward}) {
        if (rank < 2) {
          auto link = all.group(rank).communicator(rank, group);
          if (link.rank() == 0) {
            link.send(out.span(), 1, links[group - forward]);
          } else {
            link.receive(in.span(), 0, links[group - forward]);
          }
          join(device, links[group - forward]);
        }
      }
      join(device, device.compute);
      all.wait(rank);
      world.keep_and_spoil();
      own.keep_and_spoil();
      in.keep_and_spoil();
      CHECK(world.result() == std::vector<float>(99, 15.0F));
      CHECK(own.result() == std::vector<float>(7, rank % 2 == 0 ? 5.0F : 10.0F));
      CHECK(in.result() == std::vector<float>(5, rank < 2 ? 11.0F - static_cast<float>(rank) : 0));
    }
  });
  CHECK(test::first_message(errors) == "");
}

TEST_CASE("NCCL groups: who is no member, or lives elsewhere, is a sentence") {
  if (sizes(4).empty()) {
    return;
  }
  Ranks all{4, two_stages(), 2};
  CHECK(test::first_message(all.errors()) == "");
  CHECK_THROWS_WITH_AS(static_cast<void>(all.group(0).communicator(1, stage_0)),
                       "communicator: rank 1 is no member of group 0 (stage 0), which has: 0, 2",
                       ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(all.group(0).communicator(2, stage_0)),
                       doctest::Contains("does not live in this process"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(all.group(0).communicator(0, 4)),
                       doctest::Contains("there is no group 4"), ContractError);
  std::vector<cuda::Device> const devices{{0}};
  CHECK_THROWS_WITH_AS((NcclGroup{1, 0, devices, ncclUniqueId{}, {.groups = {{{1}, "odd"}}}}),
                       doctest::Contains("group 0 (odd) names rank 1"), ContractError);
}

TEST_CASE("NCCL groups: an id for 128 ranks, and words for each rank of any number") {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
  CHECK(detail::unique_ids_of(1) == 1);
  CHECK(detail::unique_ids_of(128) == 1);
  CHECK(detail::unique_ids_of(129) == 2);
  CHECK(detail::unique_ids_of(1024) == 8);
  CHECK(detail::unique_ids_of(65536) == 512);
  CHECK(detail::unique_ids_of(1 << 20) == 512);
  CHECK(make_unique_ids({}, 300, std::chrono::seconds{1}).size() == 3);
#endif
  std::vector<cuda::Device> const one{{0}};
  for (int const ranks : {1, 512, 513, 65536}) {
    detail::NcclSlots const slots{ranks, 0, one, {}};
    CHECK(slots.of_rank(0).words >= 2 * static_cast<std::size_t>(ranks));
  }
}

TEST_CASE("NCCL groups: of one rank, they make no call") {
  NcclTransport<1> const one{TransportOptions{.groups = {{{0}, "stage 0"}}}};
  CHECK(one.communicator(0, 0).size() == 1);
  CHECK_THROWS_AS(static_cast<void>(one.communicator(0, 1)), ContractError);
  CHECK_THROWS_AS(NcclTransport<1>{two_stages()}, ContractError);
}

#if defined(TANDEM_CUDA_EMULATED)

TEST_CASE(
    "NCCL groups: all ranks split in rounds, with the colour of their group and their place") {
  test::Watchdog const watchdog{"NCCL splits"};
  for (int const processes : {1, 2, 4}) {
    Tidy const tidy;
    emu::clear_nccl_calls();
    {
      Ranks all{4, two_stages(), processes};
      CHECK(test::first_message(all.errors()) == "");
      CHECK(emu::live_nccl_communicators() == 12);
      CHECK(emu::nccl_calls().empty());
    }
    int const none = NCCL_SPLIT_NOCOLOR;
    std::vector<std::vector<std::pair<int, int>>> const expected{
        {{0, 0}, {2, 0}, {3, 1}},  // the two stages' groups have no rank in common
        {{1, 1}, {2, 1}, {3, 0}},
        {{0, 1}, {none, 0}, {none, 0}},
        {{1, 0}, {none, 0}, {none, 0}}};
    for (int rank = 0; rank < 4; ++rank) {
      std::vector<std::pair<int, int>> seen;
      for (emu::NcclSplit const& split : emu::nccl_splits(rank)) {
        seen.emplace_back(split.color, split.key);
        CHECK(split.group > 0);
        CHECK(split.most_blocks == (split.color == forward || split.color == backward ? 4 : 0));
      }
      CHECK(seen == expected[static_cast<std::size_t>(rank)]);
      auto const first = emu::nccl_splits(rank)[1].group;
      bool const together = first == emu::nccl_splits(0)[1].group;
      CHECK(together == (rank / (4 / processes) == 0));  // one group of calls a process
    }
  }
}

TEST_CASE("NCCL groups: messages of a link can be captured and replayed") {
  test::Watchdog const watchdog{"NCCL links in a graph"};
  Tidy const tidy;
  Ranks all{4, two_stages(), 2};
  std::vector<cuda::Graph> graphs(2);  // destroyed before the group, as NCCL wants it
  auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    if (rank > 1) {
      return;
    }
    auto link = all.group(comm.rank()).communicator(comm.rank(), forward);
    link.warm_up(device.communication, {Operation::send});
    test::Fleeting<float> data{device, std::vector<float>(9, 3.0F + static_cast<float>(rank))};
    cuda::Capture capture{device.communication};
    data.fill();
    if (link.rank() == 0) {
      link.send(data.span(), 1, device.communication);
    } else {
      link.receive(data.span(), 0, device.communication);
    }
    data.keep_and_spoil();
    graphs[rank] = capture.finish();
    for (int i = 0; i < 3; ++i) {
      graphs[rank].launch(device.communication);
      all.wait(comm.rank());
      CHECK(data.result() == std::vector<float>(9, 3.0F));
    }
  });
  CHECK(test::first_message(errors) == "");
}

TEST_CASE("NCCL groups: a time-out names all who are behind, in each group") {
  test::Watchdog const watchdog{"NCCL time-out of a group"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  {
    Ranks all{4, two_stages(200)};
    all.group(1).progress(1) = 17;
    auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
      int const rank = comm.rank();
      auto& group = all.group(rank);
      test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
      if (rank == 0) {
        group.communicator(0, forward).send(data.span(), 1, device.communication, {"F", 0});
        group.communicator(0, backward).receive(data.span(), 0, device.communication, {"B", 0});
      }
    });
    CHECK(message_of<TimeoutError>(errors[0]) ==
          "trainer: boundary 0-1, forward: rank 1 did not reach the other end of send #1 (F 0) "
          "within 200 ms; it was last in no operation, rank 1 is at action 17; "
          "boundary 1-0, backward: rank 1 did not reach the other end of receive #1 (B 0) "
          "within 200 ms; it was last in no operation, rank 1 is at action 17");
  }
  CHECK(emu::aborted_nccl_communicators() == aborted + 12);  // each once
}

TEST_CASE("NCCL groups: where nobody here is behind, the last call of the rank is named") {
  test::Watchdog const watchdog{"NCCL time-out of another process"};
  Tidy const tidy;
  Ranks all{4, two_stages(200), 4};
  auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
    comm.warm_up(device.communication);
    if (comm.rank() == 0) {
      all.group(0).communicator(0, backward).receive(data.span(), 0, device.communication);
    }
  });
  CHECK(message_of<TimeoutError>(errors[0]) ==
        "trainer: boundary 1-0, backward: rank 0 waited 200 ms for its GPU, last in receive #1, "
        "rank 0 is at action 0; rank 0 has come so far: look at the other processes, where the "
        "others live");
}

TEST_CASE("NCCL groups: abort() wakes those who wait in any group") {
  test::Watchdog const watchdog{"NCCL abort of all groups"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  {
    Ranks all{4, two_stages()};
    auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
      int const rank = comm.rank();
      auto& group = all.group(rank);
      test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
      if (rank == 0) {
        group.communicator(0, stage_0)
            .all_reduce(data.span(), data.span(), Sum{},
                        device.communication);  // which waits in the call
      } else if (rank == 1) {
        group.communicator(1, forward).receive(data.span(), 0, device.communication);
      } else if (rank == 2) {
        comm.barrier(device.communication);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
        group.abort(3, "it ran out of luck");
        CHECK_THROWS_AS(group.communicator(3, stage_1).barrier(device.communication), AbortedError);
      }
    });
    for (auto const& error : errors) {
      CHECK(message_of<AbortedError>(error) == "trainer: rank 3 failed: it ran out of luck");
    }
  }
  CHECK(emu::aborted_nccl_communicators() == aborted + 12);
}

TEST_CASE("NCCL groups: an error that NCCL notices in a link comes out of poll()") {
  test::Watchdog const watchdog{"NCCL error of a link"};
  Ranks all{2, {.groups = {{{1, 0}, "boundary 1-0, backward"}, {{1}, "stage 1"}}}};
  CHECK(test::first_message(all.errors()) == "");
  emu::break_nccl(0, ncclRemoteError, 1);  // of the group of rank 1 alone
  all.group(0).poll(0);
  CHECK_THROWS_WITH_AS(all.group(1).poll(1), doctest::Contains("remote process exited"), NcclError);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
TEST_CASE("NCCL groups: ranks meet by several ids") {
  test::Watchdog const watchdog{"NCCL ids"};
  Tidy const tidy;
  std::size_t const misuses = emu::nccl_misuses();
  NcclUniqueIds const ids = make_unique_ids({}, 129, std::chrono::seconds{1});
  REQUIRE(ids.size() == 2);
  auto const errors = test::on_threads(2, [&](int process) {
    std::vector<cuda::Device> const own{{2 * process}, {2 * process + 1}};
    NcclGroup group{4, 2 * process, own, ids, two_stages(10000)};
    CHECK(group.communicator(2 * process).size() == 4);
    group.finish();
  });
  CHECK(test::first_message(errors) == "");
  CHECK(emu::nccl_misuses() == misuses);
}
#endif

TEST_CASE("NCCL groups: a process that does not come to a split is a sentence, nothing is left") {
  test::Watchdog const watchdog{"NCCL split"};
  Tidy const tidy;
  auto const id = make_unique_id({}, std::chrono::seconds{1});
  auto const errors = test::on_threads(2, [&](int process) {
    TransportOptions options = two_stages(200);
    if (process == 1) {
      options.groups.resize(1);
    }
    std::vector<cuda::Device> const own{{2 * process}, {2 * process + 1}};
    NcclGroup const group{4, 2 * process, own, id, options};
    std::this_thread::sleep_for(std::chrono::milliseconds{400});
  });
  CHECK(message_of<TimeoutError>(errors[0]) ==
        "trainer: boundary 0-1, forward: NCCL did not connect all 4 ranks, of which ranks 0 and 1 "
        "live in this "
        "process: another process did not come within 200 ms");
}

#endif  // TANDEM_CUDA_EMULATED

}  // namespace
}  // namespace tandem::nccl_test

#endif  // TANDEM_NCCL
