// SPDX-License-Identifier: Apache-2.0

/// @file
/// What sums between the ranks of a process cost: reduce_in_tree() in place, on one thread, beside
/// a plain loop over the same memory and a memcpy of it; and an all-reduce of two ranks. The bytes
/// of a rate are those that all of them must read and write: two for each element of each rank.

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/threads/communicator.hpp>
#include <tandem/comm/threads/group.hpp>

namespace {

using namespace tandem;

constexpr std::size_t large = std::size_t{25} << 18;  // floats of 25 MiB: a bucket of gradients
constexpr std::size_t small = std::size_t{1} << 12;   // of 16 KiB: in a cache

void count(benchmark::State& state, std::size_t ranks, std::size_t elements) {
  state.SetBytesProcessed(
      static_cast<std::int64_t>(state.iterations() * ranks * elements * 2 * sizeof(float)));
}

std::vector<std::vector<float>> arrays(std::size_t ranks, std::size_t elements) {
  return {ranks, std::vector<float>(elements, 0.0F)};
}

void tree(benchmark::State& state) {
  auto const ranks = static_cast<std::size_t>(state.range(0));
  auto const elements = static_cast<std::size_t>(state.range(1));
  auto memory = arrays(ranks, elements);
  std::vector<float const*> inputs;
  std::vector<float*> outputs;
  for (std::vector<float>& array : memory) {
    inputs.push_back(array.data());
    outputs.push_back(array.data());
  }
  for (auto _ : state) {
    reduce_in_tree(std::span<float const* const>{inputs}, 0, elements,
                   std::span<float* const>{outputs}, Sum{});
    benchmark::ClobberMemory();
  }
  count(state, ranks, elements);
}

void plain_loop(benchmark::State& state) {
  auto const elements = static_cast<std::size_t>(state.range(1));
  auto memory = arrays(2, elements);
  float* __restrict const a = memory[0].data();
  float* __restrict const b = memory[1].data();
  for (auto _ : state) {
    for (std::size_t i = 0; i < elements; ++i) {
      a[i] = b[i] = a[i] + b[i];
    }
    benchmark::ClobberMemory();
  }
  count(state, 2, elements);
}

/// As many bytes read and written as a sum of two ranks.
void copy(benchmark::State& state) {
  auto const elements = static_cast<std::size_t>(state.range(1));
  auto memory = arrays(4, elements);
  for (auto _ : state) {
    std::memcpy(memory[2].data(), memory[0].data(), elements * sizeof(float));
    std::memcpy(memory[3].data(), memory[1].data(), elements * sizeof(float));
    benchmark::ClobberMemory();
  }
  count(state, 2, elements);
}

/// All ranks of a group on threads of their own, by wall clock.
void all_reduce(benchmark::State& state) {
  auto const ranks = static_cast<int>(state.range(0));
  auto const elements = static_cast<std::size_t>(state.range(1));
  auto memory = arrays(static_cast<std::size_t>(ranks), elements);
  ThreadsGroup group{ranks};
  std::vector<std::unique_ptr<host::Queue>> queues;
  for (int rank = 0; rank < ranks; ++rank) {
    queues.push_back(std::make_unique<host::Queue>());
  }
  for (auto _ : state) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto const own = static_cast<std::size_t>(rank);
      std::span<float> const data{memory[own]};
      group.communicator(rank).all_reduce(data, data, Sum{}, *queues[own]);
    }
    for (auto const& queue : queues) {
      queue->synchronize();
    }
  }
  count(state, static_cast<std::size_t>(ranks), elements);
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (long const ranks : {2, 3, 4, 8}) {
    bench->Args({ranks, static_cast<long>(small)})->Args({ranks, static_cast<long>(large)});
  }
}
void two(benchmark::internal::Benchmark* bench) {
  bench->Args({2, static_cast<long>(small)})->Args({2, static_cast<long>(large)});
}

BENCHMARK(tree)->Apply(sizes);
BENCHMARK(plain_loop)->Apply(two);
BENCHMARK(copy)->Apply(two);
BENCHMARK(all_reduce)->Apply(two)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
