// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training steps of GoogLeNet for CIFAR on a GPU, a round at a time, for run.py to compare.
///
///   bench_googlenet_bf16 BATCH PEAK_FLOPS PEAK_BYTES
///
/// Prints a line of JSON about itself; then, for each line "round N" that it reads, trains N steps
/// and prints {"step_s": ..., "host_s": ...}, the second being what the rank's thread spends on
/// queueing a step. Compiled once for each precision, which is in its name.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <type_traits>
#include <vector>

#include <tandem/cuda.cuh>
#include <tandem/measure/account/step_account.hpp>

#include "roofline.hpp"

namespace {

namespace td = tandem;
using Clock = std::chrono::steady_clock;

struct Net : td::models::GoogLeNet<10> {};
using Precision = td::TANDEM_BENCH_PRECISION;
using Backend = td::BasicCuda<td::TANDEM_BENCH_KERNELS, Precision>;
using Trainer = td::Trainer<Net, td::SingleDevice<>, Backend>;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

struct Data {
  explicit Data(int samples)
      : x(static_cast<std::size_t>(samples) * 3 * 32 * 32), y(static_cast<std::size_t>(samples)) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = td::uniform(td::philox(1, td::RandomUse::user, i, 0).word[0]) - 0.5F;
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = static_cast<std::int32_t>(i % 10);
    }
  }
  std::vector<float> x;
  std::vector<std::int32_t> y;
};

/// Steps queued behind each other as Trainer::train() does, on the rank's own thread.
void round(Trainer& trainer, Data const& data, int batch, int steps) {
  Clock::duration queueing{};
  auto const begin = Clock::now();
  trainer.workers().run([&](Trainer::RankType& rank) {
    constexpr int most = Trainer::Workers::steps_in_flight;
    for (int step = 0; step < steps; ++step) {
      if (step >= most) {
        rank.collect();
      }
      auto const queue = Clock::now();
      rank.queue_training({.step = step, .learning_rate = 0.001},
                          {.x = data.x.data(), .targets = data.y.data(), .size = batch});
      queueing += Clock::now() - queue;
    }
    for (int step = 0; step < (steps < most ? steps : most); ++step) {
      rank.collect();
    }
  });
  double const all = seconds(Clock::now() - begin);
  std::printf("{\"step_s\": %.9f, \"host_s\": %.9f}\n", all / steps, seconds(queueing) / steps);
}

void serve(int batch, td::bench::Peak peak) {
  Data const data{batch};
  Trainer trainer{
      {.batch = batch, .optimizer = td::Sgd{.learning_rate = 0.001F, .momentum = 0.9F}}};
  double const loss = trainer.step(data.x, data.y).loss;
  unsigned long long used = 0;
  trainer.workers().run([&](Trainer::RankType& rank) {
    auto& own = static_cast<Trainer::Workers::RankOf<0>&>(rank);
    td::cuda::check(
        cudaMemPoolGetAttribute(own.device().pool.get(), cudaMemPoolAttrUsedMemCurrent, &used));
  });
  auto const& graph = Trainer::graph;
  auto const work = td::bench::step_work(graph, batch, sizeof(Backend::Scalar), peak);
  // What the step consists of is known for the backend with cuDNN.
  if constexpr (std::is_same_v<td::TANDEM_BENCH_KERNELS, td::CuDnn>) {
    auto const account = td::step_account<Net, td::SingleDevice<>, Precision>({.batch = batch});
    std::printf("{\"kernels\": %lld, \"moved_bytes\": %.6e, ",
                static_cast<long long>(account.kernels()), account.bytes());
  } else {
    std::printf("{");
  }
  std::printf(
      "\"parameters\": %lld, \"loss\": %.6f, \"planned_bytes\": %lld, \"used_bytes\": %llu, "
      "\"flops\": %.6e, \"bytes\": %.6e, \"roofline_s\": %.9f}\n",
      static_cast<long long>(graph.parameter_elements()), loss,
      static_cast<long long>(trainer.memory().total()), used, work.flops, work.bytes, work.seconds);
  std::fflush(stdout);
  for (int steps = 0; std::scanf(" round %d", &steps) == 1 && steps > 0;) {
    round(trainer, data, batch, steps);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: bench_googlenet_bf16 BATCH PEAK_FLOPS PEAK_BYTES\n", stderr);
    return 2;
  }
  try {
    serve(std::atoi(argv[1]), {.flops = std::atof(argv[2]), .bytes = std::atof(argv[3])});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
