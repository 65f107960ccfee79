// SPDX-License-Identifier: Apache-2.0
// One of two processes that talk through NCCL; two_processes.sh starts both on one GPU.
//
//   gpu_two_processes numbers    all operations, compared with what they must give
//   gpu_two_processes killed     process 1 kills itself before a collective; process 0 must not
//   hang

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#if !defined(TANDEM_NCCL)

int main() {
  std::printf("skipped: this was built without NCCL\n");
  return 77;
}

#else

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/comm/cuda/ordered.cuh>
#include <tandem/comm/nccl/transport.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/error.hpp>
#include <tandem/runtime/cuda/graph.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>
#include <tandem/train/ranks/world.hpp>

#include <device_array.hpp>

namespace {

namespace td = tandem;
using Clock = std::chrono::steady_clock;
using Floats = std::vector<float>;

constexpr std::chrono::seconds timeout{10};
int failures = 0;

void check(bool good, char const* what) {
  std::printf("%s: %s\n", what, good ? "right" : "WRONG");
  failures += good ? 0 : 1;
}

/// This process's rank with what it needs.
struct Process {
  explicit Process(td::World const& world)
      : rank{world.process},
        transport{{.timeout = timeout, .name = "two processes", .world = world}},
        device{td::cuda::Device{transport.device_of(0)}},
        comm{transport.communicator(rank)} {}

  void wait() {
    td::cuda::Event end{device.device};
    device.communication.record(end);
    auto const begin = Clock::now();
    device.wait(
        end, [&] { transport.poll(rank, Clock::now() - begin); }, std::chrono::minutes{5});
    transport.poll(rank);
  }

  int rank;
  td::NcclTransport<2> transport;
  td::cuda::RankDevice device;
  td::NcclCommunicator comm;
};

Floats numbers(std::size_t count, int rank) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = (rank == 0 ? 1.0F : 0.3333333F) * static_cast<float>(i % 1000 + 1);
  }
  return values;
}

void try_numbers(Process& p) {
  std::size_t const count = 300001;
  auto& stream = p.device.communication;
  int const peer = 1 - p.rank;
  Floats sum = numbers(count, 0);
  Floats const other = numbers(count, 1);
  for (std::size_t i = 0; i < count; ++i) {
    sum[i] += other[i];
  }
  td::test::DeviceArray<float> const own{p.device, numbers(count, p.rank)};
  td::test::DeviceArray<float> const result{p.device, count};
  std::span<float> const in{own.data(), count};
  std::span<float> const out{result.data(), count};

  p.comm.all_reduce(in, out, td::Sum{}, stream, {"plain"});
  p.wait();
  check(result.host() == sum, "all-reduce");

  std::size_t const bytes = td::ordered_scratch_bytes<td::NcclCommunicator, float>(count, 2);
  td::test::DeviceArray<std::uint8_t> const scratch{p.device, bytes};
  std::span<std::byte> const room{reinterpret_cast<std::byte*>(scratch.data()), bytes};
  td::all_reduce_ordered<td::NcclCommunicator, float>(p.comm, in, out, td::Sum{}, room, stream);
  p.wait();
  check(result.host() == sum, "ordered all-reduce");

  if (p.rank == 0) {
    p.comm.send(in, peer, stream);
    p.comm.receive(out, peer, stream);
  } else {
    p.comm.receive(out, peer, stream);
    p.comm.send(in, peer, stream);
  }
  p.wait();
  check(result.host() == numbers(count, peer), "send and receive");

  td::Outgoing<float> const send{in.subspan(0, 1000), peer};
  td::Incoming<float> const receive{out.subspan(1000, 1000), peer};
  p.comm.exchange(std::span{&send, 1}, std::span{&receive, 1}, stream);
  p.wait();
  Floats const got = result.host();
  check(Floats(got.begin() + 1000, got.begin() + 2000) == numbers(1000, peer), "exchange");

  p.comm.reduce_scatter(in.subspan(0, 2000), out.subspan(0, 1000), td::Sum{}, stream);
  p.comm.all_gather(out.subspan(0, 1000), out.subspan(2000, 2000), stream);
  p.comm.barrier(stream);
  p.wait();
  Floats const gathered = result.host();
  check(Floats(gathered.begin() + 2000, gathered.begin() + 4000) ==
            Floats(sum.begin(), sum.begin() + 2000),
        "reduce-scatter and all-gather");

  td::cuda::Capture capture{stream};
  td::all_reduce_ordered<td::NcclCommunicator, float>(p.comm, in, out, td::Sum{}, room, stream);
  p.comm.broadcast(in, 1, stream);
  td::cuda::Graph const graph = capture.finish();
  graph.launch(stream);
  p.wait();
  check(result.host() == sum && own.host() == other, "a captured graph, with a broadcast");
}

/// Process 1 is gone; process 0 must notice, by NCCL's error or by its time-out.
void try_killed(Process& p) {
  td::test::DeviceArray<float> const data{p.device, Floats(1000, 1.0F)};
  std::span<float> const all{data.data(), 1000};
  p.comm.all_reduce(all, all, td::Sum{}, p.device.communication);
  p.wait();
  if (p.rank == 1) {
    std::printf("ending without a word\n");
    std::fflush(stdout);
    std::raise(SIGKILL);
  }
  auto const begin = Clock::now();
  bool noticed = false;
  try {
    for (int i = 0; i < 1000; ++i) {  // the first may still find what process 1 has left
      p.comm.all_reduce(all, all, td::Sum{}, p.device.communication, {"bucket", i});
      p.wait();
    }
  } catch (td::Error const& error) {
    std::printf("%s\n", error.what());
    p.transport.abort(p.rank, error.what());
    noticed = true;
  }
  check(noticed, "the end of process 1 is noticed");
  check(Clock::now() - begin < timeout + std::chrono::seconds{10}, "in time");
}

}  // namespace

int main(int argc, char** argv) {
  if (!td::cuda::has_device()) {
    std::printf("skipped: there is no GPU\n");
    return 77;
  }
  try {
    Process process{td::world_from_environment()};
    if (argc == 2 && std::strcmp(argv[1], "killed") == 0) {
      try_killed(process);
    } else {
      try_numbers(process);
    }
  } catch (std::exception const& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}

#endif
