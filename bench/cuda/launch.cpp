// SPDX-License-Identifier: Apache-2.0

/// @file
/// Host time of what a step consists of: a launch, the launch of a recorded graph, and the queueing
/// of a whole step of a network whose kernels are next to nothing. Prints JSON, in seconds.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include <tandem/cuda.cuh>

namespace tandem::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Net : Network<Image<3, 8, 8>, Sequential<Conv2d<8, Kernel<3>, Padding<1>>, BatchNorm2d<>,
                                                ReLU, GlobalAvgPool, Linear<10>>> {};
using TinyTrainer = Trainer<Net, SingleDevice<>, BasicCuda<Portable, Fp32>>;

/// The median over rounds of the time of one call; between rounds the device catches up.
template <class Queue, class Wait>
double host_seconds(Queue const& queue, Wait const& wait) {
  constexpr int rounds = 21;
  constexpr int calls = 16;
  std::vector<double> times;
  for (int round = -2; round < rounds; ++round) {
    wait();
    auto const begin = Clock::now();
    for (int call = 0; call < calls; ++call) {
      queue();
    }
    double const seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (round >= 0) {
      times.push_back(seconds / calls);
    }
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

void report(char const* name, double seconds, char const* end) {
  std::printf("\"%s\": %.9f%s", name, seconds, end);
}

void kernels() {
  cuda::RankDevice device{cuda::Device{0}};
  cuda::Buffer const memory{device, 4096};
  auto const queue = [&] { cuda::fill(device.compute, memory.as<float>(), 1024, 1.0F); };
  auto const wait = [&] { device.compute.synchronize(); };
  report("launch", host_seconds(queue, wait), ", ");
  for (int const count : {1, 500}) {
    cuda::Capture capture{device.compute};
    for (int i = 0; i < count; ++i) {
      queue();
    }
    cuda::Graph const graph = capture.finish();
    report(count == 1 ? "graph of 1 kernel" : "graph of 500 kernels",
           host_seconds([&] { graph.launch(device.compute); }, wait), ", ");
  }
}

/// A step is queued, then collected; only the first is timed.
double step(bool record) {
  constexpr int batch = 1;
  TinyTrainer trainer{{.batch = batch, .record = record}};
  std::vector<float> const x(3 * 8 * 8, 0.5F);
  std::vector<std::int32_t> const y(batch, 3);
  std::vector<double> times;
  trainer.workers().run([&](TinyTrainer::RankType& rank) {
    for (int i = 0; i < 220; ++i) {
      auto const begin = Clock::now();
      rank.queue_training({.step = i, .learning_rate = 0.01},
                          {.x = x.data(), .targets = y.data(), .size = batch});
      if (i >= 20) {
        times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      }
      rank.collect();
    }
  });
  std::nth_element(times.begin(), times.begin() + 100, times.end());
  return times[100];
}

}  // namespace
}  // namespace tandem::bench

int main() {
  try {
    std::printf("{");
    tandem::bench::kernels();
    tandem::bench::report("recorded step", tandem::bench::step(true), ", ");
    tandem::bench::report("walked step", tandem::bench::step(false), "}\n");
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
