// SPDX-License-Identifier: Apache-2.0
// NcclCommunicator: what it computes, also in a graph, and what it refuses.
//
// On real GPUs a case needs as many as it has ranks.

#if defined(TANDEM_NCCL)

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/cuda/ordered.cuh>
#include <tandem/comm/nccl/transport.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/runtime/cuda/graph.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include "nccl_support.hpp"
#include "support.hpp"

namespace tandem::nccl_test {

using C = NcclCommunicator;
static_assert(AllReduces<C, float, Sum> && AllReduces<C, BFloat16, Max>);
static_assert(AllReduces<C, Float16, Sum>);
static_assert(ReduceScatters<C, double, Sum> && AllGathers<C, std::int32_t>);
static_assert(Broadcasts<C, float> && SendsAndReceives<C, float> && Exchanges<C, float>);
static_assert(Barriers<C> && !AllReduces<C, char, Sum>);
namespace {

using test::Numbers;

TEST_CASE_TEMPLATE("NCCL: collectives", T, float, double, std::int32_t, BFloat16) {
  test::Watchdog const watchdog{"NCCL collectives"};
  for (int const ranks : sizes()) {
    if constexpr (!std::is_same_v<T, BFloat16>) {
      test::check_all_reduce<T>(Run{}, ranks, Numbers::small, Sum{}, {0, 1, 17, 4097});
      test::check_all_reduce<T>(Run{}, ranks, Numbers::small, Max{}, {33});
      test::check_scatter_and_gather<T>(Run{}, ranks, Numbers::small, {0, 1, 33, 1000});
    }
    test::check_broadcast<T>(Run{}, ranks);
    if (ranks > 1) {
      test::check_messages<T>(Run{}, ranks);
    }
  }
}

TEST_CASE_TEMPLATE("NCCL: 16-bit numbers are reduced", T, BFloat16, Float16) {
  test::Watchdog const watchdog{"NCCL 16 bits"};
  for (int const ranks : sizes(2)) {
    auto const errors = Run{}(ranks, [](auto& comm, cuda::RankDevice& device) {
      std::vector<T> const one(9, T{1.0F});
      test::Fleeting<T> data{device, one};
      data.fill();
      comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
      data.keep_and_spoil();
      std::vector<T> const all(9, T{static_cast<float>(comm.size())});
      CHECK(test::same_bits(data.result(), all));
    });
    CHECK(test::first_message(errors) == "");
  }
}

TEST_CASE_TEMPLATE("NCCL: the ordered all-reduce has the bits of threads", T, float, double) {
  test::Watchdog const watchdog{"NCCL ordered"};
  for (int const ranks : sizes()) {
    for (std::size_t const count : {0, 1, 2, 17, 64, 4097, 100003}) {
      CAPTURE(ranks);
      CAPTURE(count);
      std::vector<std::vector<T>> in;
      for (int rank = 0; rank < ranks; ++rank) {
        in.push_back(test::numbers<T>(Numbers::wild, count, rank, count));
      }
      auto const expected = test::host_all_reduce(in, Sum{});
      std::size_t const bytes = ordered_scratch_bytes<NcclCommunicator, T>(count, ranks);
      auto const errors = Run{}(ranks, [&](auto& comm, cuda::RankDevice& device) {
        auto const& own = in[static_cast<std::size_t>(comm.rank())];
        test::DeviceArray<std::uint8_t> const scratch{device, bytes};
        std::span<std::byte> const room{reinterpret_cast<std::byte*>(scratch.data()), bytes};
        test::Fleeting<T> from{device, own, comm.rank() % 2 == 1};
        test::Fleeting<T> to{device, std::vector<T>(count)};
        test::Fleeting<T> both{device, own};
        auto& stream = device.communication;
        from.fill();
        both.fill();
        all_reduce_ordered<NcclCommunicator, T>(comm, from.span(), to.span(), Sum{}, room, stream);
        all_reduce_ordered<NcclCommunicator, T>(comm, both.span(), both.span(), Sum{}, room,
                                                stream);
        from.keep_and_spoil();
        to.keep_and_spoil();
        both.keep_and_spoil();
        CHECK(test::same_bits(to.result(), expected));
        CHECK(test::same_bits(both.result(), expected));
        CHECK(scratch.size() == static_cast<std::int64_t>(bytes));
        static_cast<void>(scratch.host());  // nothing was written outside of it
      });
      CHECK(test::first_message(errors) == "");
    }
  }
}

#if defined(TANDEM_CUDA_EMULATED)

TEST_CASE("NCCL: a ring adds in another order, so the ordered all-reduce is needed") {
  Ranks all{4};
  std::vector<std::vector<float>> in;
  for (int rank = 0; rank < 4; ++rank) {
    in.push_back(test::numbers<float>(Numbers::wild, 1000, rank, 1));
  }
  auto const ordered = test::host_all_reduce(in, Sum{});
  all.run([&](auto& comm, cuda::RankDevice& device) {
    test::Fleeting<float> data{device, in[static_cast<std::size_t>(comm.rank())]};
    data.fill();
    comm.all_reduce(data.span(), data.span(), Sum{}, device.communication);
    data.keep_and_spoil();
    CHECK_FALSE(test::same_bits(data.result(), ordered));
  });
}

#endif  // TANDEM_CUDA_EMULATED

TEST_CASE("NCCL: the scratch of the ordered all-reduce is about one array") {
  CHECK(ordered_scratch_bytes<NcclCommunicator, float>(1 << 20, 4) == 3 * (1 << 20));
  CHECK(ordered_scratch_bytes<NcclCommunicator, float>(1, 4) == 3 * 64);
  CHECK(ordered_scratch_bytes<NcclCommunicator, double>(0, 4) == 0);
  CHECK(ordered_scratch_bytes<NcclCommunicator, float>(100, 1) == 0);
  CHECK(ordered_scratch_bytes<CudaSelfCommunicator, float>(100, 1) == 0);
}

TEST_CASE("NCCL: everything can be captured and replayed") {
  test::Watchdog const watchdog{"NCCL capture"};
  for (int const ranks : sizes(2)) {
    CAPTURE(ranks);
    std::size_t const count = 1001;
    std::vector<std::vector<float>> in;
    for (int rank = 0; rank < ranks; ++rank) {
      in.push_back(test::numbers<float>(Numbers::wild, count, rank, 4));
    }
    auto const once = test::host_all_reduce(in, Sum{});
    auto const errors = Run{}(ranks, [&](auto& comm, cuda::RankDevice& device) {
      auto& stream = device.communication;
      comm.warm_up(stream, {Operation::all_reduce, Operation::broadcast, Operation::all_gather,
                            Operation::reduce_scatter, Operation::send, Operation::barrier});
      std::size_t const bytes = ordered_scratch_bytes<NcclCommunicator, float>(count, comm.size());
      test::DeviceArray<std::uint8_t> const scratch{device, bytes};
      test::Fleeting<float> ordered{device, in[static_cast<std::size_t>(comm.rank())]};
      test::Fleeting<std::int32_t> plain{device, std::vector<std::int32_t>(7, comm.rank() + 1)};
      cuda::Capture capture{stream};
      ordered.fill();
      plain.fill();
      all_reduce_ordered<NcclCommunicator, float>(
          comm, ordered.span(), ordered.span(), Sum{},
          {reinterpret_cast<std::byte*>(scratch.data()), bytes}, stream);
      comm.all_reduce(plain.span(), plain.span(), Sum{}, stream);
      comm.broadcast(plain.span().subspan(0, 1), comm.size() - 1, stream);
      comm.barrier(stream);
      ordered.keep_and_spoil();
      plain.keep_and_spoil();
      cuda::Graph graph = capture.finish();
      for (int i = 0; i < 3; ++i) {
        graph.launch(stream);
      }
      CHECK(test::same_bits(ordered.result(), once));
      int const sum = comm.size() * (comm.size() + 1) / 2;
      CHECK(plain.result() == std::vector<std::int32_t>(7, sum));
    });
    CHECK(test::first_message(errors) == "");
  }
}

TEST_CASE("NCCL: what cannot be meant is refused before NCCL sees it") {
  test::Watchdog const watchdog{"NCCL contracts"};
  if (sizes(2).empty()) {
    return;
  }
  Ranks all{2};
  auto& stream = all.device(0).communication;
  NcclCommunicator comm = all.group(0).communicator(0);
  test::DeviceArray<float> const memory{all.device(0), 10};
  std::span<float> const ten{memory.data(), 10};
  CHECK_THROWS_AS(comm.all_reduce(ten, ten.subspan(1), Sum{}, stream), ContractError);
  CHECK_THROWS_AS(comm.reduce_scatter(ten, ten, Sum{}, stream), ContractError);
  CHECK_THROWS_AS(comm.all_gather(ten, ten, stream), ContractError);
  CHECK_THROWS_AS(comm.broadcast(ten, 2, stream), ContractError);
  CHECK_THROWS_AS(comm.send(ten, 0, stream), ContractError);
  CHECK_THROWS_AS(comm.receive(ten, -1, stream), ContractError);
  Outgoing<float> const to_nobody{ten, 2};
  CHECK_THROWS_AS(
      comm.exchange(std::span{&to_nobody, 1}, std::span<Incoming<float> const>{}, stream),
      ContractError);
  CHECK_THROWS_AS((all_reduce_ordered<NcclCommunicator, float>(comm, ten, ten, Sum{}, {}, stream)),
                  ContractError);
  CHECK_THROWS_AS(static_cast<void>(all.group(0).communicator(2)), ContractError);
  ncclUniqueId const id = make_unique_id({}, std::chrono::seconds{1});
  cuda::Device const device{0};
  CHECK_THROWS_AS((NcclGroup{1, 1, std::span{&device, 1}, id}), ContractError);
  CHECK_THROWS_AS((NcclGroup{1, 0, std::span{&device, 1}, id, {.timeout = {}}}), ContractError);
}

}  // namespace
}  // namespace tandem::nccl_test

#endif  // TANDEM_NCCL
