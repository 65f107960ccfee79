// SPDX-License-Identifier: Apache-2.0

/// @file
/// Floating-point operations a second of gemm, beside what one core reaches in a loop of
/// multiply-adds on registers ("peak"). Run with --benchmark_repetitions=5 for the spread.

#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <tandem/kernels/host/gemm.hpp>

namespace {

using namespace tandem;
using host::Transpose;

/// Sixteen vectors of 64 bytes, each its own chain of multiply-adds.
template <class T>
void peak(benchmark::State& state) {
  constexpr std::size_t width = 16 * 64 / sizeof(T);
  T x[width];
  for (std::size_t j = 0; j < width; ++j) {
    x[j] = static_cast<T>(j);
  }
  T factor = T{0.5};
  benchmark::DoNotOptimize(factor);
  for (auto _ : state) {
    T sum[width] = {};
    for (int i = 0; i < 10000; ++i) {
      for (std::size_t j = 0; j < width; ++j) {
        sum[j] = sum[j] * factor + x[j];
      }
    }
    benchmark::DoNotOptimize(sum);
  }
  state.counters["flops"] = benchmark::Counter(
      2e4 * width, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

template <class T>
void gemm(benchmark::State& state) {
  int const m = static_cast<int>(state.range(0));
  int const n = static_cast<int>(state.range(1));
  int const k = static_cast<int>(state.range(2));
  auto const ta = static_cast<Transpose>(state.range(3));
  auto const tb = static_cast<Transpose>(state.range(4));
  host::Team team{static_cast<int>(state.range(5))};
  auto const size = [](std::int64_t rows, std::int64_t columns) {
    return static_cast<std::size_t>(rows * columns);
  };
  std::vector<T> const a(size(m, k), T{1});
  std::vector<T> const b(size(k, n), T{1});
  std::vector<T> c(size(m, n));
  std::vector<T> scratch(static_cast<std::size_t>(host::gemm_scratch<T>(team.size())));
  for (auto _ : state) {
    host::gemm(team, ta, tb, m, n, k, a.data(), ta == Transpose::yes ? m : k, b.data(),
               tb == Transpose::yes ? k : n, c.data(), n, false, scratch.data());
    benchmark::DoNotOptimize(c.data());
  }
  state.counters["flops"] = benchmark::Counter(
      2.0 * m * n * k, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "ta", "tb", "threads"})->UseRealTime();
  for (int const threads : {1, 2}) {
    for (int const size : {64, 256, 512, 1024}) {
      bench->Args({size, size, size, 0, 0, threads});
    }
    bench->Args({512, 512, 512, 0, 1, threads});
    bench->Args({512, 512, 512, 1, 0, threads});
    bench->Args({512, 512, 512, 1, 1, threads});
    bench->Args({128, 10, 1024, 0, 1, threads});
    bench->Args({128, 4096, 1024, 0, 1, threads});
  }
}

BENCHMARK(peak<float>);
BENCHMARK(peak<double>);
BENCHMARK(gemm<float>)->Apply(shapes);
BENCHMARK(gemm<double>)->Apply(shapes);

}  // namespace

BENCHMARK_MAIN();
