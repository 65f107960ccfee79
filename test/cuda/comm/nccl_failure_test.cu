// SPDX-License-Identifier: Apache-2.0
// NcclCommunicator where something fails: time-outs, aborts, errors. In the emulation only.

#if defined(TANDEM_NCCL) && defined(TANDEM_CUDA_EMULATED)

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
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

TransportOptions impatient(int ms) {
  return {.timeout = std::chrono::milliseconds{ms},
          .describe_progress =
              [](int rank, std::uint64_t progress) {
                return "rank " + std::to_string(rank) + " is at action " + std::to_string(progress);
              },
          .name = "replicas"};
}

TEST_CASE("NCCL: a rank that does not come while NCCL connects is named when time is up") {
  test::Watchdog const watchdog{"NCCL time-out in a call"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  {
    Ranks all{3, impatient(200)};
    all.group(1).progress(1) = 17;
    auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
      test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
      comm.barrier(device.communication, {"start"});
      if (comm.rank() != 1) {
        comm.all_reduce(data.span(), data.span(), Sum{}, device.communication, {"bucket", 1});
        comm.broadcast(data.span(), 0, device.communication, {"weights", 1});
      }
    });
    std::string const expected =
        "replicas: rank 1 did not reach broadcast #3 (weights 1) within 200 ms; it was last in "
        "barrier #1 (start), rank 1 is at action 17";
    bool const first = message_of<TimeoutError>(errors[0]) == expected;
    bool const third = message_of<TimeoutError>(errors[2]) == expected;
    CHECK((first || third));
    CHECK((first || message_of<AbortedError>(errors[0]) == expected));
    CHECK((third || message_of<AbortedError>(errors[2]) == expected));
    CHECK_THROWS_AS(all.group(1).poll(1), AbortedError);
  }
  CHECK(emu::aborted_nccl_communicators() == aborted + 3);  // each once
}

TEST_CASE("NCCL: a rank that does not come on the device is named when time is up") {
  test::Watchdog const watchdog{"NCCL time-out on the device"};
  Tidy const tidy;
  Ranks all{2, impatient(200), 2};
  auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
    comm.warm_up(device.communication);
    if (comm.rank() == 0) {
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication, {"bucket", 1});
    }
  });
  CHECK(message_of<TimeoutError>(errors[0]) ==
        "replicas: rank 0 waited 200 ms for its GPU, last in all-reduce #2 (bucket 1), rank 0 is "
        "at action 0; rank 0 has come so far: look at the other processes, where the others live");
  CHECK(errors[1] == nullptr);  // a process of its own, which has not failed
}

TEST_CASE("NCCL: abort() wakes those who wait, in a call and for the GPU") {
  test::Watchdog const watchdog{"NCCL abort"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  {
    Ranks all{4};
    auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
      test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
      comm.warm_up(device.communication);
      if (comm.rank() == 0) {
        comm.broadcast(data.span(), 0, device.communication);  // waits for a connection
      } else if (comm.rank() == 1) {
        comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
        all.group(comm.rank()).abort(comm.rank(), "it ran out of luck");  // two at once
      }
    });
    for (std::size_t rank = 0; rank < 4; ++rank) {
      std::string const message = message_of<AbortedError>(errors[rank]);
      CHECK((message == "rank 2 failed: it ran out of luck" ||
             message == "rank 3 failed: it ran out of luck"));
      CHECK(message == message_of<AbortedError>(errors[0]));
    }
  }
  CHECK(emu::aborted_nccl_communicators() == aborted + 4);
}

TEST_CASE(
    "NCCL: a replayed graph whose peer does not come ends in time, though the graph lives on") {
  test::Watchdog const watchdog{"NCCL time-out of a graph"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  {
    Ranks all{2, impatient(200)};
    std::vector<cuda::Graph> graphs(2);  // destroyed before the group, as NCCL wants it
    auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
      test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
      comm.warm_up(device.communication);
      cuda::Capture capture{device.communication};
      data.fill();
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication, {"bucket", 0});
      auto const rank = static_cast<std::size_t>(comm.rank());
      graphs[rank] = capture.finish();
      if (rank == 0) {
        graphs[rank].launch(device.communication);
        all.wait(0);
      }
    });
    CHECK(message_of<TimeoutError>(errors[0]) ==
          "replicas: rank 0 waited 200 ms for its GPU, last in all-reduce #2 (bucket 0), rank 0 is "
          "at action 0; all ranks have come so far: do their calls match?");
  }
  CHECK(emu::aborted_nccl_communicators() == aborted + 2);
}

TEST_CASE("NCCL: an error that NCCL notices later comes out of poll()") {
  test::Watchdog const watchdog{"NCCL asynchronous error"};
  Ranks all{2};
  auto const errors = all.run([&](auto& comm, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, std::vector<float>(3, 2.0F)};
    comm.warm_up(device.communication);
    if (comm.rank() == 0) {
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
      emu::break_nccl(0, ncclRemoteError);
    }
  });
  std::string const message = message_of<NcclError>(errors[0]);
  CHECK(message.find("NCCL: remote process exited or there was a network error; another process "
                     "has ended or cannot be reached: look at its output first (") == 0);
  CHECK(message.find("group.hpp:") != std::string::npos);
}

TEST_CASE("NCCL: a process that does not come, or shares a GPU, is a sentence") {
  test::Watchdog const watchdog{"NCCL connect"};
  Tidy const tidy;
  ncclUniqueId const id = make_unique_id({}, std::chrono::seconds{1});
  std::vector<cuda::Device> const two{{0}, {1}};
  std::string message;
  try {
    NcclGroup const group{4, 2, two, id, impatient(100)};
  } catch (TimeoutError const& error) {
    message = error.what();
  }
  CHECK(message ==
        "replicas: NCCL did not connect all 4 ranks, of which ranks 2 and 3 live in this process: "
        "another process did not come within 100 ms");
  std::vector<cuda::Device> const same{{1}, {1}};
  message.clear();
  try {
    NcclGroup const group{2, 0, same, make_unique_id({}, std::chrono::seconds{1})};
  } catch (NcclError const& error) {
    message = error.what();
    CHECK(error.code() == ncclInvalidUsage);
  }
  CHECK(message.find("NCCL: invalid usage; are two ranks on one GPU?") == 0);
}

}  // namespace
}  // namespace tandem::nccl_test

#endif  // TANDEM_NCCL && TANDEM_CUDA_EMULATED
