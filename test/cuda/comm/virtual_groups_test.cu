// SPDX-License-Identifier: Apache-2.0
// VirtualTransport with groups of some of its ranks: they work at once and fail together.

#include <tandem/comm/cuda_virtual/transport.cuh>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/comm/reduction.hpp>
#include <tandem/comm/transport.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include "support.hpp"

namespace tandem::virtual_test {
namespace {

using test::message_of;

static_assert(RankTransport<VirtualTransport<1>> && RankTransport<VirtualTransport<4>>);

/// Two stages of two replicas each, and links between the first ranks of both.
enum Group : int { stage_0, stage_1, forward, backward };
TransportOptions two_stages(std::chrono::milliseconds timeout = std::chrono::seconds{600}) {
  return {.timeout = timeout,
          .groups = {{{0, 2}, "stage 0"},
                     {{3, 1}, "stage 1"},
                     {{0, 1}, "boundary 0-1, forward"},
                     {{1, 0}, "boundary 1-0, backward"}}};
}

/// f(rank, device) on a thread for each rank.
template <class F>
test::Errors on_ranks(F const& f) {
  std::vector<std::unique_ptr<cuda::RankDevice>> devices;
  for (int rank = 0; rank < 4; ++rank) {
    devices.push_back(std::make_unique<cuda::RankDevice>(cuda::Device{0}));
  }
  return test::on_threads(4, [&](int rank) {
    auto& device = *devices[static_cast<std::size_t>(rank)];
    f(rank, device);
    device.communication.synchronize();
  });
}

TEST_CASE("virtual groups: two at once with the bits of threads, messages both ways") {
  test::Watchdog const watchdog{"virtual groups"};
  VirtualTransport<4> transport{two_stages()};
  std::vector<std::vector<float>> in;
  for (int rank = 0; rank < 4; ++rank) {
    in.push_back(test::numbers<float>(test::Numbers::wild, 1001, rank, 3));
  }
  std::vector<float> const sums[] = {test::host_all_reduce<float>({in[0], in[2]}, Sum{}),
                                     test::host_all_reduce<float>({in[3], in[1]}, Sum{})};
  auto const total = test::host_all_reduce(in, Sum{});
  auto const errors = on_ranks([&](int rank, cuda::RankDevice& device) {
    auto const r = static_cast<std::size_t>(rank);
    auto& stream = device.communication;
    auto stage = transport.communicator(rank, rank % 2 == 0 ? stage_0 : stage_1);
    auto all = transport.communicator(rank);
    CHECK(stage.size() == 2);
    CHECK(stage.rank() == (rank == 0 || rank == 3 ? 0 : 1));
    for (int i = 0; i < 10; ++i) {
      test::Fleeting<float> own{device, in[r]};
      test::Fleeting<float> world{device, in[r]};
      test::Fleeting<float> out{device, in[r]};
      test::Fleeting<float> message{device, std::vector<float>(1001)};
      own.fill();
      world.fill();
      out.fill();
      for (int const group : {forward, backward}) {
        if (rank < 2) {
          auto link = transport.communicator(rank, group);
          link.rank() == 0 ? link.send(out.span(), 1, stream)
                           : link.receive(message.span(), 0, stream);
        }
      }
      stage.all_reduce(own.span(), own.span(), Sum{}, stream);
      all.all_reduce(world.span(), world.span(), Sum{}, stream);
      own.keep_and_spoil();
      world.keep_and_spoil();
      out.keep_and_spoil();
      message.keep_and_spoil();
      CHECK(test::same_bits(own.result(), sums[r % 2]));
      CHECK(test::same_bits(world.result(), total));
      if (rank < 2) {
        CHECK(test::same_bits(message.result(), in[1 - r]));
      }
    }
  });
  CHECK(test::first_message(errors) == "");
}

TEST_CASE("virtual groups: a failure in one ends the waiting in all") {
  test::Watchdog const watchdog{"virtual groups fail"};
  VirtualTransport<4> transport{two_stages()};
  auto const errors = on_ranks([&](int rank, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, std::vector<float>(8, 1.0F)};
    if (rank == 0) {
      transport.communicator(0, stage_0).barrier(device.communication);
    } else if (rank == 1) {
      transport.communicator(1, forward).receive(data.span(), 0, device.communication);
    } else if (rank == 2) {
      transport.communicator(2).barrier(device.communication);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
      transport.abort(3, "it ran out of luck");
    }
  });
  for (std::size_t const rank : {0, 1, 2}) {
    CHECK(message_of<AbortedError>(errors[rank]) == "rank 3 failed: it ran out of luck");
  }
  CHECK_THROWS_AS(transport.poll(1), AbortedError);
}

TEST_CASE("virtual groups: a time-out names the ranks as the program does") {
  test::Watchdog const watchdog{"virtual groups' time-out"};
  VirtualTransport<4> transport{two_stages(std::chrono::milliseconds{100})};
  auto const errors = on_ranks([&](int rank, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, std::vector<float>(8, 1.0F)};
    if (rank == 3) {
      transport.communicator(3, stage_1).receive(data.span(), 1, device.communication, {"halo"});
    }
  });
  CHECK(message_of<TimeoutError>(errors[3]) ==
        "stage 1: rank 1 did not send message #1, which rank 3 waits to receive (halo) within 100 "
        "ms; it was last in no call of this group");
}

TEST_CASE("virtual groups: who is no member is a sentence; one rank is alone in each") {
  VirtualTransport<4> transport{two_stages()};
  CHECK_THROWS_WITH_AS(static_cast<void>(transport.communicator(1, stage_0)),
                       "communicator: rank 1 is no member of group 0 (stage 0), which has: 0, 2",
                       ContractError);
  CHECK_THROWS_AS(VirtualTransport<2>{two_stages()}, ContractError);
  VirtualTransport<1> const one{TransportOptions{.groups = {{{0}, "stage 0"}}}};
  CHECK(one.communicator(0, 0).size() == 1);
  CHECK_THROWS_AS(static_cast<void>(one.communicator(0, 1)), ContractError);
  CHECK_THROWS_AS(VirtualTransport<1>{two_stages()}, ContractError);
}

}  // namespace
}  // namespace tandem::virtual_test
