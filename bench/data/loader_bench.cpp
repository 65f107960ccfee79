// SPDX-License-Identifier: Apache-2.0

/// @file
/// Samples a second of what feeds a network: one thread that reads and augments, transform by
/// transform, and a Loader of batches of 128. A network that trains on fewer never waits; what one
/// sample takes is what each step loses of a core that the device's threads share with the Loader.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <tandem/data/augment.hpp>
#include <tandem/data/cifar10.hpp>
#include <tandem/data/loader.hpp>

namespace {

using namespace tandem;

constexpr Normalize normalize{.mean = {0.4914F, 0.4822F, 0.4465F},
                              .std = {0.2470F, 0.2435F, 0.2616F}};

/// Random pixels, more than the caches hold.
Cifar10Split const& records() {
  static Cifar10Split const split = [] {
    std::vector<std::uint8_t> bytes(20000 * cifar10_record);
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      state = state * 1664525U + 1013904223U;
      bytes[i] = i % cifar10_record == 0 ? static_cast<std::uint8_t>((state >> 16) % 10)
                                         : static_cast<std::uint8_t>(state >> 24);
    }
    return Cifar10Split{std::move(bytes), "random"};
  }();
  return split;
}

void count(benchmark::State& state, std::int64_t samples_each) {
  double const samples =
      static_cast<double>(samples_each) * static_cast<double>(state.iterations());
  state.counters["samples"] = benchmark::Counter(samples, benchmark::Counter::kIsRate);
}

/// One sample after the other, on the calling thread.
template <class D>
void read(benchmark::State& state, D const& data) {
  std::array<float, 3072> x{};
  std::array<std::int32_t, 1> y{};
  std::int64_t index = 0;
  for (auto _ : state) {
    read_sample(data, index, x, y, Randomness{.seed = 1, .sample = index});
    benchmark::DoNotOptimize(x);
    index = (index + 7919) % data.size();
  }
  count(state, 1);
}

/// Epochs of batches of 128, taken as fast as they come.
template <class D>
void load(benchmark::State& state, D const& data) {
  for (auto _ : state) {
    Loader<D> loader{data, {.batch = 128, .seed = 1}};
    for (Batch<float, std::int32_t> batch; loader.next(batch);) {
      benchmark::DoNotOptimize(batch.x[0]);
    }
  }
  count(state, data.size());
}

void read_plain(benchmark::State& state) { read(state, records()); }
void read_normalized(benchmark::State& state) { read(state, augment(records(), normalize)); }
void read_cropped(benchmark::State& state) { read(state, augment(records(), RandomCrop{4})); }
void read_flipped(benchmark::State& state) { read(state, augment(records(), RandomFlip{})); }
void read_cifar(benchmark::State& state) {
  read(state, augment(records(), RandomCrop{4}, RandomFlip{}, normalize));
}
void load_plain(benchmark::State& state) { load(state, records()); }
void load_cifar(benchmark::State& state) {
  load(state, augment(records(), RandomCrop{4}, RandomFlip{}, normalize));
}

BENCHMARK(read_plain);
BENCHMARK(read_normalized);
BENCHMARK(read_cropped);
BENCHMARK(read_flipped);
BENCHMARK(read_cifar);
BENCHMARK(load_plain)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(load_cifar)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace

BENCHMARK_MAIN();
