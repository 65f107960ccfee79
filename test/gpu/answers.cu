// SPDX-License-Identifier: Apache-2.0
// Questions about NCCL and CUDA that only a GPU answers; one of two processes, which answers.sh
// starts.
//
//   gpu_answers order      messages of two links and all-reduces in the order of 1F1B, other on
//                          each rank, beside kernels that fill the GPU
//   gpu_answers loading FILE   process 0 launches a kernel for the first time while a receive
//                          waits, and only when that has run lets process 1 send
//   gpu_answers destroy    communicators made and destroyed, the memory that is free afterwards
//   gpu_answers register   an all-reduce of plain memory, and of registered memory of ncclMemAlloc
//
// Ends with 0 if the numbers are right, 3 if it did not end in time, 1 if something else is wrong.

#include <cstdio>
#include <cstring>

#if !defined(TANDEM_NCCL)

int main() {
  std::printf("skipped: this was built without NCCL\n");
  return 77;
}

#else

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <nccl.h>

#include <tandem/comm/nccl/transport.hpp>
#include <tandem/comm/nccl/unique_id.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/error.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/rank_device.hpp>
#include <tandem/train/ranks/world.hpp>

#include <device_array.hpp>

namespace {

namespace td = tandem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds timeout{15};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// x[i] += value, again and again: fills the GPU for a while.
__global__ void busy_kernel(float* x, std::int64_t n, float value, int rounds) {
  std::int64_t const first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int round = 0; round < rounds; ++round) {
    for (std::int64_t i = first; i < n; i += std::int64_t{gridDim.x} * blockDim.x) {
      x[i] += value;
    }
  }
}

/// Used by `loading` alone, once.
__global__ void late_kernel(float* x) { x[threadIdx.x] = 7.0F; }

enum Group : int { forward, backward };

/// This process's rank with what it needs.
struct Process {
  explicit Process(td::World const& world)
      : rank{world.process},
        transport{{.timeout = timeout,
                   .name = "answers",
                   .world = world,
                   .groups = {{{0, 1}, "forward", true}, {{1, 0}, "backward", true}}}},
        device{td::cuda::Device{transport.device_of(0)}},
        links{td::cuda::Stream{device.device}, td::cuda::Stream{device.device}} {}

  /// Waits for the stream as a rank does.
  void wait(td::cuda::Stream& stream) {
    td::cuda::Event end{device.device};
    stream.record(end);
    device.wait(
        end, [&](auto waited) { transport.poll(rank, waited); }, std::chrono::minutes{5});
    transport.poll(rank);
  }

  int rank;
  td::NcclTransport<2> transport;
  td::cuda::RankDevice device;
  td::cuda::Stream links[2];
};

/// Microbatch m's numbers, all m + 1, go to rank 1, which doubles them nowhere: it sends its own,
/// all 100 + m, back. Rank 0 is up to two microbatches ahead.
int try_order(Process& p) {
  constexpr int microbatches = 8;
  constexpr int steps = 6;
  constexpr std::size_t count = std::size_t{1} << 18;
  auto all = p.transport.communicator(p.rank);
  td::NcclCommunicator ends[] = {p.transport.communicator(p.rank, forward),
                                 p.transport.communicator(p.rank, backward)};
  std::vector<td::test::DeviceArray<float> > sent;
  std::vector<td::test::DeviceArray<float> > got;
  for (int m = 0; m < microbatches; ++m) {
    float const value = static_cast<float>(p.rank == 0 ? m + 1 : 100 + m);
    sent.emplace_back(p.device, std::vector<float>(count, value));
    got.emplace_back(p.device, std::vector<float>(count, 0.0F));
  }
  std::int64_t const n = std::int64_t{1} << 22;
  td::test::DeviceArray<float> const work{p.device,
                                          std::vector<float>(static_cast<std::size_t>(n), 0.0F)};
  td::test::DeviceArray<float> const sum{p.device, std::vector<float>(count, 1.0F)};
  td::cuda::Event done{p.device.device};
  auto const compute = [&] {
    td::cuda::launch(busy_kernel, td::cuda::Grid{4096}, 256, p.device.compute, work.data(), n, 1.0F,
                     4);
  };
  // A message waits for what was computed; what is computed next waits for a receive.
  auto const message = [&](int group, int m, bool sends) {
    auto const at = static_cast<std::size_t>(m);
    td::cuda::Stream& stream = p.links[group];
    p.device.begin_on(stream);
    if (sends) {
      ends[group].send(std::span<float const>{sent[at].data(), count}, 1, stream);
    } else {
      ends[group].receive(std::span<float>{got[at].data(), count}, 0, stream);
      stream.record(done);
      p.device.compute.wait_for(done);
    }
  };
  auto const begin = Clock::now();
  for (int step = 0; step < steps; ++step) {
    for (int m = 0; m < microbatches + 2; ++m) {
      if (p.rank == 0) {  // F0 F1 F2 B0 F3 B1 ...
        if (m < microbatches) {
          compute();
          message(forward, m, true);
        }
        if (m >= 2) {
          message(backward, m - 2, false);
          compute();
        }
      } else if (m < microbatches) {  // F0 B0 F1 B1 ...
        message(forward, m, false);
        compute();
        message(backward, m, true);
      }
    }
    p.device.begin_on(p.device.communication);
    all.all_reduce(std::span<float>{sum.data(), count}, std::span<float>{sum.data(), count},
                   td::Max{}, p.device.communication);
    p.device.communication.record(done);
    p.device.compute.wait_for(done);
  }
  for (td::cuda::Stream& link : p.links) {
    p.wait(link);
  }
  p.wait(p.device.compute);
  double const seconds = seconds_since(begin);
  for (int m = 0; m < microbatches; ++m) {
    float const value = static_cast<float>(p.rank == 0 ? 100 + m : m + 1);
    if (got[static_cast<std::size_t>(m)].host() != std::vector<float>(count, value)) {
      std::printf("error: microbatch %d has wrong numbers\n", m);
      return 1;
    }
  }
  std::printf("%d steps of %d microbatches in %.3f s\n", steps, microbatches, seconds);
  return 0;
}

int try_loading(Process& p, char const* file) {
  td::test::DeviceArray<float> const data{p.device, std::vector<float>(32, 1.0F)};
  td::test::DeviceArray<float> const own{p.device, std::vector<float>(32, 0.0F)};
  td::NcclCommunicator link = p.transport.communicator(p.rank, backward);  // from rank 1 to rank 0
  auto const message = [&] {
    if (link.rank() == 0) {
      link.send(std::span<float const>{data.data(), 32}, 1, p.links[0]);
    } else {
      link.receive(std::span<float>{data.data(), 32}, 0, p.links[0]);
    }
  };
  message();  // connects
  p.wait(p.links[0]);
  auto const begin = Clock::now();
  if (p.rank == 1) {
    while (!std::ifstream{file}.good()) {
      if (Clock::now() - begin > timeout) {
        std::printf("the kernel did not run while the receive waited\n");
        message();  // so that the other goes on
        p.wait(p.links[0]);
        return 3;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    message();
    p.wait(p.links[0]);
    return 0;
  }
  message();
  std::this_thread::sleep_for(std::chrono::milliseconds{200});  // it spins by now
  td::cuda::launch(late_kernel, td::cuda::Grid{1}, 32, p.device.compute, own.data());
  double const launched = seconds_since(begin);
  p.wait(p.device.compute);
  double const ran = seconds_since(begin);
  std::ofstream{file} << "ran\n";
  p.wait(p.links[0]);
  std::printf("launched after %.3f s, ran after %.3f s\n", launched, ran);
  return own.host() == std::vector<float>(32, 7.0F) ? 0 : 1;
}

std::size_t free_bytes() {
  std::size_t available = 0;
  std::size_t total = 0;
  td::cuda::check(cudaMemGetInfo(&available, &total));
  return available;
}

/// Three times: what the first leaves, CUDA's and NCCL's own, later ones must not add to.
int try_destroy(td::World const& world) {
  std::size_t left[3] = {};
  for (int round = 0; round < 3; ++round) {
    auto const begin = Clock::now();
    {
      Process p{world};
      td::test::DeviceArray<float> const data{p.device, std::vector<float>(1000, 1.0F)};
      std::span<float> const all{data.data(), 1000};
      p.transport.communicator(p.rank).all_reduce(all, all, td::Sum{}, p.device.communication);
      p.wait(p.device.communication);
    }
    left[round] = free_bytes();
    std::printf("round %d: %.3f s, %zu MiB free\n", round, seconds_since(begin), left[round] >> 20);
  }
  // The other process allocates on the same GPU meanwhile: what grows by little is no leak.
  return left[2] + (std::size_t{64} << 20) < left[0] ? 1 : 0;
}

int try_register(td::World const& world) {
  constexpr std::size_t count = std::size_t{1} << 24;
  ncclUniqueId const id = td::make_unique_id(world, timeout);
  ncclComm_t comm = nullptr;
  td::cuda::check(cudaSetDevice(0));
  td::check_nccl(ncclCommInitRank(&comm, world.processes, id, world.process));
  td::cuda::RankDevice device{td::cuda::Device{0}};
  td::cuda::Buffer const plain{device, count * sizeof(float)};
  void* memory = nullptr;
  void* handle = nullptr;
  td::check_nccl(ncclMemAlloc(&memory, count * sizeof(float)), comm);
  td::check_nccl(ncclCommRegister(comm, memory, count * sizeof(float), &handle), comm);
  std::vector<float> const ones(count, 1.0F);
  bool right = true;
  for (void* const buffer : {static_cast<void*>(plain.data()), memory}) {
    td::cuda::copy_bytes(buffer, ones.data(), count * sizeof(float), cudaMemcpyHostToDevice,
                         device.compute);
    double seconds = 0.0;
    for (int round = 0; round < 5; ++round) {
      device.compute.synchronize();
      auto const begin = Clock::now();
      td::check_nccl(
          ncclAllReduce(buffer, buffer, count, ncclFloat, ncclMax, comm, device.compute.get()),
          comm);
      device.compute.synchronize();
      seconds = seconds_since(begin);
    }
    std::vector<float> result(count);
    td::cuda::copy_bytes(result.data(), buffer, count * sizeof(float), cudaMemcpyDeviceToHost,
                         device.compute);
    device.compute.synchronize();
    right = right && result == ones;
    std::printf("%s: 64 MiB in %.3f ms\n", buffer == memory ? "registered" : "plain",
                seconds * 1000);
  }
  td::check_nccl(ncclCommDeregister(comm, handle), comm);
  td::check_nccl(ncclMemFree(memory), comm);
  td::check_nccl(ncclCommDestroy(comm));
  return right ? 0 : 1;
}

int answer(int argc, char** argv) {
  std::string const question = argc > 1 ? argv[1] : "";
  td::cuda::prepare_environment();
  td::World const world = td::world_from_environment();
  if (question == "destroy" && argc == 2) {
    return try_destroy(world);
  }
  if (question == "register" && argc == 2) {
    return try_register(world);
  }
  if (question == "order" && argc == 2) {
    Process process{world};
    return try_order(process);
  }
  if (question == "loading" && argc == 3) {
    Process process{world};
    return try_loading(process, argv[2]);
  }
  std::fputs("usage: gpu_answers order|destroy|register, or loading FILE\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    int const status = answer(argc, argv);
    if (status == 3) {
      std::fflush(nullptr);
      _exit(3);
    }
    return status;
  } catch (td::TimeoutError const& error) {
    std::printf("%s\n", error.what());
  } catch (td::AbortedError const& error) {
    std::printf("%s\n", error.what());
  } catch (std::exception const& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
  std::fflush(nullptr);
  _exit(3);  // a GPU that hangs would make destructors wait
}

#endif
