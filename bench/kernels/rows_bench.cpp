// SPDX-License-Identifier: Apache-2.0

/// @file
/// Bytes a second of row-wise kernels, beside a copy that reads and writes as many: the rows of a
/// GPT of 384 channels, a batch of 4 and 256 tokens.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/host/embedding.hpp>
#include <tandem/kernels/host/layer_norm.hpp>
#include <tandem/kernels/host/smooth_activation.hpp>
#include <tandem/runtime/host/team.hpp>

namespace {

using namespace tandem;

constexpr std::int64_t rows = 1024;
constexpr int channels = 384;

template <class T>
std::vector<T> numbers(std::int64_t n) {
  std::vector<T> x(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    x[static_cast<std::size_t>(i)] = static_cast<T>(static_cast<float>(i * 37 % 1001) * 0.006F - 3);
  }
  return x;
}

/// Runs kernel(team, a, b, c) on three arrays of n numbers, of which it reads or writes `streams`.
template <class T, class Kernel>
void run(benchmark::State& state, std::int64_t n, int streams, Kernel const& kernel) {
  host::Team team{static_cast<int>(state.range(0))};
  std::vector<T> const a = numbers<T>(n);
  std::vector<T> const b = numbers<T>(n);
  std::vector<T> c = numbers<T>(n);
  for (auto _ : state) {
    kernel(team, a.data(), b.data(), c.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * n * streams * static_cast<std::int64_t>(sizeof(T)));
}

template <class T>
void copy(benchmark::State& state) {
  std::int64_t const n = rows * channels * state.range(1);
  run<T>(state, n, 2, [n](auto& team, T const* a, T const*, T* c) {
    host::for_wide<T>(team, n,
                      [=](std::int64_t i, auto some) { some.store(c + i, some.load(a + i)); });
  });
}

/// Reads two arrays and writes one, as a gradient does.
template <class T>
void add(benchmark::State& state) {
  std::int64_t const n = rows * channels * state.range(1);
  run<T>(state, n, 3, [n](auto& team, T const* a, T const* b, T* c) {
    host::for_wide<T>(team, n, [=](std::int64_t i, auto some) {
      some.store(c + i, some.load(a + i) + some.load(b + i));
    });
  });
}

template <class T, class Function>
void activation(benchmark::State& state) {
  std::int64_t const n = rows * channels * state.range(1);
  run<T>(state, n, 2, [n](auto& team, T const* a, T const*, T* c) {
    host::activation_forward<Function>(team, a, c, n);
  });
}

template <class T, class Function>
void activation_gradient(benchmark::State& state) {
  std::int64_t const n = rows * channels * state.range(1);
  run<T>(state, n, 3, [n](auto& team, T const* a, T const* b, T* c) {
    host::activation_gradient<Function>(team, a, b, c, n);
  });
}

struct NormMemory {
  std::vector<float> gain = numbers<float>(channels);
  std::vector<float> bias = numbers<float>(channels);
  std::vector<float> mean = numbers<float>(rows);
  std::vector<float> inverse = numbers<float>(rows);
  std::vector<double> scratch =
      numbers<double>(host::norm_scratch_bytes<float>(rows, channels) / 8 + 1);
};

template <class T>
void layer_norm(benchmark::State& state) {
  NormMemory m;
  run<T>(state, rows * channels, 2, [&m](auto& team, T const* a, T const*, T* c) {
    host::norm_forward<true>(team, rows, channels, a, m.gain.data(), m.bias.data(), 1e-5, c,
                             m.mean.data(), m.inverse.data());
  });
}

template <class T>
void layer_norm_gradient(benchmark::State& state) {
  NormMemory m;
  std::vector<float> sums(2 * channels);
  run<T>(state, rows * channels, 3, [&](auto& team, T const* a, T const* b, T* c) {
    host::norm_gradient<true>(team, rows, channels, a, b, m.gain.data(), m.mean.data(),
                              m.inverse.data(), c, sums.data(), sums.data() + channels,
                              reinterpret_cast<std::byte*>(m.scratch.data()));
  });
}

/// Of range(1) indices; half of the rows have one of the first tenth of them.
template <class T>
void embedding_gradient(benchmark::State& state) {
  int const vocabulary = static_cast<int>(state.range(1));
  std::vector<std::int32_t> index;
  for (std::int64_t row = 0; row < rows; ++row) {
    auto const any = static_cast<std::int32_t>(row * 7919 % vocabulary);
    index.push_back(row % 2 == 0 ? any : any / 10);
  }
  std::vector<float> table(static_cast<std::size_t>(vocabulary) * channels);
  std::vector<std::int32_t> scratch(
      static_cast<std::size_t>(host::embedding_scratch(rows, vocabulary)));
  host::Team team{static_cast<int>(state.range(0))};
  auto const dy = numbers<T>(rows * channels);
  for (auto _ : state) {
    host::embedding_gradient(team, rows, {0, vocabulary}, channels, index.data(), dy.data(),
                             table.data(), false, scratch.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(
      state.iterations() * channels *
      (rows * static_cast<std::int64_t>(sizeof(T)) + vocabulary * std::int64_t{sizeof(float)}));
}

void one_thread(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"threads", "width"})->Unit(benchmark::kMicrosecond)->UseRealTime();
  bench->Args({1, 1})->Args({1, 4});
}
void vocabularies(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"threads", "vocabulary"})->Unit(benchmark::kMicrosecond)->UseRealTime();
  bench->Args({1, 65})->Args({1, 50257});
}

BENCHMARK_TEMPLATE(copy, float)->Apply(one_thread);
BENCHMARK_TEMPLATE(copy, BFloat16)->Apply(one_thread);
BENCHMARK_TEMPLATE(add, float)->Apply(one_thread);
BENCHMARK_TEMPLATE(add, BFloat16)->Apply(one_thread);
BENCHMARK_TEMPLATE(activation, float, GeluFunction)->Apply(one_thread);
BENCHMARK_TEMPLATE(activation, BFloat16, GeluFunction)->Apply(one_thread);
BENCHMARK_TEMPLATE(activation, float, GeluTanhFunction)->Apply(one_thread);
BENCHMARK_TEMPLATE(activation_gradient, float, GeluFunction)->Apply(one_thread);
BENCHMARK_TEMPLATE(activation_gradient, BFloat16, GeluFunction)->Apply(one_thread);
BENCHMARK_TEMPLATE(activation_gradient, float, GeluTanhFunction)->Apply(one_thread);
BENCHMARK_TEMPLATE(layer_norm, float)->ArgName("threads")->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(layer_norm, BFloat16)->ArgName("threads")->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(layer_norm_gradient, float)
    ->ArgName("threads")
    ->Arg(1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(layer_norm_gradient, BFloat16)
    ->ArgName("threads")
    ->Arg(1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(embedding_gradient, float)->Apply(vocabularies);

}  // namespace

BENCHMARK_MAIN();
