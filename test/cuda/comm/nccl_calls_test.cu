// SPDX-License-Identifier: Apache-2.0
// NcclCommunicator: which calls of NCCL it makes. In the emulation only, which records them.

#if defined(TANDEM_NCCL) && defined(TANDEM_CUDA_EMULATED)

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/comm/cuda/ordered.cuh>
#include <tandem/comm/nccl/transport.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include "nccl_support.hpp"
#include "support.hpp"

namespace tandem::nccl_test {
namespace {

/// The calls of one rank as a person writes them.
std::vector<std::string> calls(int rank) {
  std::vector<std::string> result;
  for (auto const& call : emu::nccl_calls(rank)) {
    result.push_back(emu::to_string(call));
  }
  return result;
}

TEST_CASE("NCCL: the calls are those that one would write by hand") {
  test::Watchdog const watchdog{"NCCL calls"};
  Tidy const tidy;
  std::size_t const aborted = emu::aborted_nccl_communicators();
  emu::clear_nccl_calls();
  auto const errors = Run{}(3, [&](auto& comm, cuda::RankDevice& device) {
    auto& stream = device.communication;
    test::DeviceArray<float> const memory{device, std::vector<float>(48, 1.0F)};
    test::DeviceArray<std::uint8_t> const scratch{device, 1024};
    std::span<float> const all{memory.data(), 48};
    comm.all_reduce(all, all, Sum{}, stream, {"bucket", 0});
    comm.all_reduce(all.subspan(0, 0), all.subspan(0, 0), Sum{}, stream, {"nothing"});
    comm.reduce_scatter(all, all.subspan(0, 16), Max{}, stream);
    comm.broadcast(all, 2, stream);
    all_reduce_ordered<NcclCommunicator, float>(
        comm, all, all, Sum{}, {reinterpret_cast<std::byte*>(scratch.data()), 1024}, stream);
    device.settle(stream);  // the memory goes behind it
  });
  CHECK(test::first_message(errors) == "");
  CHECK(calls(1) ==
        std::vector<std::string>{"ncclAllReduce 48 float32 sum", "ncclReduceScatter 16 float32 max",
                                 "ncclBroadcast 48 float32 from 2", "ncclSend 16 float32 to 0",
                                 "ncclSend 16 float32 to 2", "ncclRecv 16 float32 from 0",
                                 "ncclRecv 16 float32 from 2", "ncclSend 16 float32 to 0",
                                 "ncclSend 16 float32 to 2", "ncclRecv 16 float32 from 0",
                                 "ncclRecv 16 float32 from 2"});
  auto const one = emu::nccl_calls(1);
  CHECK(one[0].group == 0);
  CHECK(one[3].group == one[6].group);
  CHECK(one[3].group != one[7].group);
  CHECK(one[7].group == one[10].group);
  CHECK(emu::aborted_nccl_communicators() == aborted);  // they were closed in good order
}

TEST_CASE("NCCL: what is destroyed in a group ends later, ours before its transport does") {
  test::Watchdog const watchdog{"NCCL destruction"};
  Tidy const tidy;
  static_cast<void>(Run{}(2, [](auto&, cuda::RankDevice&) {}));
  CHECK(emu::ending_nccl_communicators() == 0);

  ncclUniqueId id{};
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  auto const settle = [&] {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress && ncclCommGetAsyncError(comm, &state) == ncclSuccess) {
    }
    CHECK(state == ncclSuccess);
  };
  static_cast<void>(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  settle();
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 16) == cudaSuccess);
  cuda::Stream const stream{cuda::Device{0}};
  static_cast<void>(ncclAllReduce(memory, memory, 4, ncclFloat, ncclSum, comm, stream.get()));
  settle();
  stream.synchronize();
  static_cast<void>(ncclCommFinalize(comm));
  settle();
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInProgress);
  CHECK(emu::ending_nccl_communicators() == 1);
  emu::set_quiet(true);
  emu::clear_errors();
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(emu::last_report().find("which a communicator that is being destroyed may still use") !=
        std::string::npos);
  emu::clear_errors();
  emu::set_quiet(false);
  emu::end_nccl_destructions();
}

}  // namespace
}  // namespace tandem::nccl_test

#endif  // TANDEM_NCCL && TANDEM_CUDA_EMULATED
