// SPDX-License-Identifier: Apache-2.0
// VirtualCommunicator: several ranks on one GPU have the bits of ranks that are host threads.

#include <tandem/comm/cuda_virtual/transport.cuh>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/cuda/ordered.cuh>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include "support.hpp"

namespace tandem::virtual_test {

using C = VirtualCommunicator;
static_assert(AllReduces<C, float, Sum> && AllReduces<C, BFloat16, Max>);
static_assert(ReduceScatters<C, double, Sum> && AllGathers<C, std::int32_t>);
static_assert(Broadcasts<C, float> && SendsAndReceives<C, float> && Exchanges<C, float>);
static_assert(Barriers<C> && !AllReduces<C, std::int32_t, Sum>);

// The emulator's lock is one; where threads wait, a timeout must allow for the others' work.
struct Run {
  ThreadsOptions options{};

  template <class F>
  test::Errors operator()(int ranks, F const& f) const {
    VirtualGroup group{ranks, cuda::Device{0}, options};
    std::vector<std::unique_ptr<cuda::RankDevice>> devices;
    for (int rank = 0; rank < ranks; ++rank) {
      devices.push_back(std::make_unique<cuda::RankDevice>(cuda::Device{0}));
    }
    return test::on_threads(ranks, [&](int rank) {
      VirtualCommunicator comm = group.communicator(rank);
      f(comm, *devices[static_cast<std::size_t>(rank)]);
      devices[static_cast<std::size_t>(rank)]->communication.synchronize();
    });
  }
};

namespace {

using test::message_of;
using test::Numbers;

TEST_CASE_TEMPLATE("virtual ranks: all-reduce has the bits of threads", T, float, double) {
  test::Watchdog const watchdog{"virtual all-reduce"};
  for (int const ranks : {1, 2, 3, 4, 5}) {
    auto const n = static_cast<std::size_t>(ranks);
    test::check_all_reduce<T>(Run{}, ranks, Numbers::wild, Sum{}, {0, 1, n - 1, 17, 4097, 100003});
  }
  test::check_all_reduce<T>(Run{}, 3, Numbers::wild, Max{}, {1, 1000});
}

TEST_CASE("virtual ranks: bfloat16 is joined in float and rounded once") {
  test::Watchdog const watchdog{"virtual bfloat16"};
  std::size_t const count = 1001;
  std::vector<std::vector<float>> wide;
  for (int rank = 0; rank < 3; ++rank) {
    auto const own = test::numbers<BFloat16>(Numbers::wild, count, rank, 9);
    wide.emplace_back();
    for (BFloat16 const x : own) {
      wide.back().push_back(static_cast<float>(x));
    }
  }
  std::vector<BFloat16> expected;
  for (float const x : test::host_all_reduce(wide, Sum{})) {
    expected.emplace_back(x);
  }
  auto const errors = Run{}(3, [&](auto& comm, cuda::RankDevice& device) {
    test::Fleeting<BFloat16> data{device,
                                  test::numbers<BFloat16>(Numbers::wild, count, comm.rank(), 9)};
    data.fill();
    comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
    data.keep_and_spoil();
    CHECK(test::same_bits(data.result(), expected));
  });
  CHECK(test::first_message(errors) == "");
}

TEST_CASE("virtual ranks: reduce-scatter, all-gather, broadcast, barrier, messages") {
  test::Watchdog const watchdog{"virtual others"};
  for (int const ranks : {1, 2, 3, 4}) {
    test::check_scatter_and_gather<float>(Run{}, ranks, Numbers::wild, {0, 1, 33, 5000});
    test::check_broadcast<double>(Run{}, ranks);
    if (ranks > 1) {
      test::check_messages<float>(Run{}, ranks);
      test::check_messages<BFloat16>(Run{}, ranks);
    }
  }
}

TEST_CASE("virtual ranks: the ordered all-reduce is the all-reduce, without scratch") {
  test::Watchdog const watchdog{"virtual ordered"};
  CHECK(ordered_scratch_bytes<VirtualCommunicator, float>(1000, 4) == 0);
  std::vector<std::vector<float>> in;
  for (int rank = 0; rank < 4; ++rank) {
    in.push_back(test::numbers<float>(Numbers::wild, 1000, rank, 2));
  }
  auto const expected = test::host_all_reduce(in, Sum{});
  auto const errors = Run{}(4, [&](auto& comm, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, in[static_cast<std::size_t>(comm.rank())]};
    data.fill();
    all_reduce_ordered<VirtualCommunicator, float>(comm, data.span(), data.span(), Sum{}, {},
                                                   device.communication);
    data.keep_and_spoil();
    CHECK(test::same_bits(data.result(), expected));
  });
  CHECK(test::first_message(errors) == "");
}

TEST_CASE("virtual ranks: one message is in flight before the receiver comes, a second waits") {
  test::Watchdog const watchdog{"virtual in flight"};
  auto const errors =
      Run{{.timeout = std::chrono::milliseconds{300}}}(2, [](auto& comm, cuda::RankDevice& device) {
        test::Fleeting<float> data{device, std::vector<float>(8, 1.0F)};
        data.fill();
        if (comm.rank() == 0) {
          comm.send(data.span(), 1, device.communication, {"activation", 0});
          comm.send(data.span(), 1, device.communication, {"activation", 1});
        }
      });
  CHECK(message_of<TimeoutError>(errors[0]) ==
        "rank 1 did not receive message #1 (activation 0) from rank 0, which waits to send the "
        "next one (activation 1) within 300 ms; it was last in no collective");
}

TEST_CASE("virtual ranks: a time-out names who did not come") {
  test::Watchdog const watchdog{"virtual time-out"};
  ThreadsOptions const options{.timeout = std::chrono::milliseconds{100},
                               .describe_progress =
                                   [](int rank, std::uint64_t progress) {
                                     return "rank " + std::to_string(rank) + "'s progress is " +
                                            std::to_string(progress);
                                   },
                               .name = "replicas"};
  auto const errors = Run{options}(3, [](auto& comm, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, std::vector<float>(8, 1.0F)};
    if (comm.rank() != 1) {
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication, {"bucket", 2});
    }
  });
  std::string const expected =
      "replicas: rank 1 did not reach all-reduce #1 (bucket 2) within 100 ms; it was last in no "
      "collective, rank 1's progress is 0";
  CHECK(message_of<TimeoutError>(errors[0]) == expected);
  CHECK(message_of<TimeoutError>(errors[2]) == expected);
  CHECK(errors[1] == nullptr);
}

TEST_CASE("virtual ranks: abort() wakes those who wait, for ranks and for messages") {
  test::Watchdog const watchdog{"virtual abort"};
  VirtualGroup group{4, cuda::Device{0}};
  std::vector<std::unique_ptr<cuda::RankDevice>> devices;
  for (int rank = 0; rank < 4; ++rank) {
    devices.push_back(std::make_unique<cuda::RankDevice>(cuda::Device{0}));
  }
  auto const errors = test::on_threads(4, [&](int rank) {
    auto& device = *devices[static_cast<std::size_t>(rank)];
    VirtualCommunicator comm = group.communicator(rank);
    test::Fleeting<float> data{device, std::vector<float>(8, 1.0F)};
    if (rank == 0) {
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
    } else if (rank == 1) {
      comm.receive(data.span(), 3, device.communication);
    } else if (rank == 2) {
      comm.barrier(device.communication);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
      group.abort(rank, "it ran out of luck");
    }
  });
  for (std::size_t const rank : {0, 1, 2}) {
    CHECK(message_of<AbortedError>(errors[rank]) == "rank 3 failed: it ran out of luck");
  }
  CHECK_THROWS_AS(group.poll(0), AbortedError);
  group.reset();
  group.poll(0);
  CHECK_THROWS_AS(group.poll(0, std::chrono::hours{1}), TimeoutError);
}

TEST_CASE("virtual ranks: calls that do not match throw on all ranks, and the group goes on") {
  test::Watchdog const watchdog{"virtual mismatch"};
  auto const errors = Run{}(2, [](auto& comm, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, std::vector<float>(8, 2.0F)};
    data.fill();
    auto const some = data.span().subspan(0, comm.rank() == 0 ? 8 : 7);
    CHECK_THROWS_AS(comm.all_reduce(some, some, Sum{}, device.communication), ContractError);
    if (comm.rank() == 0) {
      comm.send(data.span(), 1, device.communication);
    } else {
      CHECK_THROWS_AS(comm.receive(some, 0, device.communication), ContractError);
    }
    CHECK_THROWS_AS(comm.send(some, comm.rank(), device.communication), ContractError);
    CHECK_THROWS_AS(comm.receive(some, 2, device.communication), ContractError);
    CHECK_THROWS_AS(comm.broadcast(some, 2, device.communication), ContractError);
    auto const rest = data.span().subspan(1);
    CHECK_THROWS_AS(comm.all_reduce(data.span().subspan(0, 7), rest, Sum{}, device.communication),
                    ContractError);
    CHECK_THROWS_AS(comm.all_reduce(some, data.span().subspan(0, 2), Sum{}, device.communication),
                    ContractError);
    comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
    data.keep_and_spoil();
    CHECK(test::same_bits(data.result(), std::vector<float>(8, 4.0F)));
  });
  CHECK(test::first_message(errors) == "");
  CHECK_THROWS_AS((VirtualGroup{65, cuda::Device{0}}), ContractError);
}

TEST_CASE("virtual transport: one rank has no group, several share the first GPU") {
  VirtualTransport<1> one{TransportOptions{}};
  CHECK(one.progress(0) == nullptr);
  CHECK(one.communicator(0).size() == 1);
  cuda::RankDevice device{cuda::Device{0}};
  test::DeviceArray<float> const from{device, {1.0F, 2.0F}};
  test::DeviceArray<float> const to{device, 2};
  one.communicator(0).all_reduce(std::span{from.data(), 2}, std::span{to.data(), 2}, Sum{},
                                 device.compute);
  CHECK(to.host() == std::vector<float>{1.0F, 2.0F});

  VirtualTransport<3> three{TransportOptions{}};
  CHECK(three.local_ranks() == 3);
  CHECK(three.first_rank() == 0);
  CHECK(three.device_of(2) == 0);
  CHECK(three.communicator(2).rank() == 2);
  *three.progress(2) = 7;
  three.poll(2);
  three.abort(1, "enough");
  CHECK_THROWS_AS(three.poll(2), AbortedError);
  CHECK_THROWS_AS(VirtualTransport<2>{TransportOptions{.world = {.processes = 2}}}, ContractError);
}

}  // namespace
}  // namespace tandem::virtual_test
